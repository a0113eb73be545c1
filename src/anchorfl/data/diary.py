"""The draws of the diary, as its code made them: Python's generator and numpy's old one, seeded alike.

With ten classes of 5,000 samples and seed 1 the disjoint draw gives the entropies of diary 001's table.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from anchorfl.config import PartitionOptions
from anchorfl.data.partition import Indices, Partition

OVERLAP_FACTOR = 10
Labels = NDArray[np.int64]


@dataclass
class Generators:
    """The two generators that the diary's code draws from, in a state of their own."""

    seed: int

    def __post_init__(self) -> None:
        self.python = random.Random(self.seed)
        self.numpy = np.random.RandomState(self.seed)


def positions_by_class(labels: Labels) -> list[list[int]]:
    """Classes in numerical order, positions in the order of the labels."""
    return [np.flatnonzero(labels == label).tolist() for label in range(int(labels.max()) + 1)]


def disjoint(labels: Labels, options: PartitionOptions, draw: Generators) -> list[list[int]]:
    """Every sample once: for each class, p ~ Dirichlet(alpha) over the clients.

    The class is shuffled; clients take consecutive runs of it, of the whole parts of p times its size,
    and what is left goes, one sample each, to as many clients drawn without replacement.
    """
    owned: list[list[int]] = [[] for _ in range(options.clients)]
    for members in positions_by_class(labels):
        draw.python.shuffle(members)
        shares = draw.numpy.dirichlet([options.alpha] * options.clients)
        counts = (shares * len(members)).astype(int)
        left = len(members) - counts.sum()
        if left > 0:
            counts[draw.numpy.choice(options.clients, left, replace=False)] += 1
        cuts = np.cumsum(counts)
        for own, end, count in zip(owned, cuts, counts, strict=True):
            own += members[end - count : end]
    return owned


def overlapping(labels: Labels, options: PartitionOptions, draw: Generators) -> list[list[int]]:
    """The draw of the published FAFI code, in which clients share images.

    For each class, p ~ Dirichlet(alpha); client k takes the first round(10 n p_k) of its shuffled
    samples, or all, and they are shuffled again. n is the size of class 0, whichever class it is.
    """
    owned: list[list[int]] = [[] for _ in range(options.clients)]
    groups = positions_by_class(labels)
    size = len(groups[0])
    for members in groups:
        draw.python.shuffle(members)
        for own, share in zip(
            owned, draw.numpy.dirichlet([options.alpha] * options.clients), strict=True
        ):
            own += members[: round(OVERLAP_FACTOR * size * share)]
            draw.python.shuffle(members)
    return owned


def share_disjoint(labels: Labels, options: PartitionOptions) -> Partition:
    return shared(labels, options, overlap=False)


def share_overlapping(labels: Labels, options: PartitionOptions) -> Partition:
    return shared(labels, options, overlap=True)


def shared(labels: Labels, options: PartitionOptions, overlap: bool) -> Partition:
    """A public share, where there is one, is the start of a permutation; clients share the rest."""
    assert options.seed is not None
    draw = Generators(options.seed)
    public, rest = split_off_public(labels, options, draw)
    owned = (overlapping if overlap else disjoint)(labels[rest], options, draw)
    return partition_of([rest[np.array(own, np.int64)] for own in owned], public)


def share_scrambled(labels: Labels, options: PartitionOptions) -> Partition:
    """What V4 of diary 004 gets from the saved indices of a V6 run: nearly all skew is lost.

    Positions among the 90 % that V6 leaves to clients, drawn by their labels, are applied to the whole
    training set, so that every client's labels are as good as drawn at random.
    """
    assert options.seed is not None
    _, rest = split_off_public(labels, options, Generators(options.seed))
    owned = overlapping(labels[rest], options, Generators(options.seed))
    return partition_of([np.array(own, np.int64) for own in owned], np.array([], np.int64))


def split_off_public(
    labels: Labels, options: PartitionOptions, draw: Generators
) -> tuple[Indices, Indices]:
    if not options.public:
        return np.array([], np.int64), np.arange(len(labels))
    order = draw.numpy.permutation(len(labels)).astype(np.int64)
    count = int(options.public * len(labels))
    return order[:count], order[count:]


def partition_of(clients: Sequence[Indices], public: Indices) -> Partition:
    nothing = np.array([], np.int64)
    return Partition([np.sort(own) for own in clients], np.sort(public), nothing)
