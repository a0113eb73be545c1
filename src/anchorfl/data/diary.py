"""The draws of the diary, as its code made them: Python's generator and numpy's old one, seeded alike.

With ten classes of 5,000 samples and seed 1 the disjoint draw gives the entropies of diary 001's table.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from anchorfl.config import PartitionOptions
from anchorfl.data.draws import OVERLAP_FACTOR, PARTITIONS, PartitionKind, Population
from anchorfl.data.partition import Partition
from anchorfl.errors import UserError

Labels = NDArray[np.int64]


class Generators:
    """The two generators that the diary's code draws from, in a state of their own."""

    def __init__(self, seed: int | None) -> None:
        assert seed is not None
        self.python = random.Random(seed)
        self.numpy = np.random.RandomState(seed)


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
        shares = draw.numpy.dirichlet([options.alpha] * options.clients)
        for own, share in zip(owned, shares, strict=True):
            own += members[: round(OVERLAP_FACTOR * size * share)]
            draw.python.shuffle(members)
    return owned


def shared(
    draw: Callable[[Labels, PartitionOptions, Generators], list[list[int]]],
    scrambled: bool,
    population: Population,
    options: PartitionOptions,
) -> Partition:
    """A public share, where there is one, is the start of a permutation; clients share the rest.

    Scrambled: what V4 of diary 004 gets from the saved indices of a V6 run. Positions among the 90 %
    that V6 leaves to clients, drawn by their labels, are applied to the whole training set, so that
    every client's labels are as good as drawn at random.
    """
    if population.validation:
        raise UserError(
            f"data.validation={population.validation:g}: partition.kind={options.kind} holds"
            " nothing out; choose settings on another kind"
        )
    labels, generators = population.labels, Generators(options.seed)
    nothing, rest = np.array([], np.int64), np.arange(len(population.labels))
    public = nothing
    if options.public:
        order = generators.numpy.permutation(len(labels)).astype(np.int64)
        public, rest = np.split(order, [int(options.public * len(labels))])
    if scrambled:
        owned = draw(labels[rest], options, Generators(options.seed))
        return Partition([np.sort(np.array(own, np.int64)) for own in owned], nothing, nothing)
    owned = draw(labels[rest], options, generators)
    clients = [np.sort(rest[np.array(own, np.int64)]) for own in owned]
    return Partition(clients, np.sort(public), nothing)


for name, draw, scrambled in (
    ("diary", disjoint, False),
    ("diary-overlap", overlapping, False),
    ("diary-scrambled", overlapping, True),
):
    PARTITIONS.register(name)(PartitionKind(partial(shared, draw, scrambled), by_alpha=True))
