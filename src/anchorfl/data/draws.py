"""The kinds of partition by name: how training samples are shared over clients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from anchorfl.config import PartitionOptions
from anchorfl.data.dataset import Sites
from anchorfl.data.partition import Indices, Partition, load_partition
from anchorfl.errors import UserError
from anchorfl.randomness import numpy_generator
from anchorfl.registry import Registry

OVERLAP_FACTOR = 10
Groups = list[Indices]
Draw = Callable[[Groups, PartitionOptions, Generator], Groups]
"""(each class's samples, options, generator) -> each client's samples."""


@dataclass(frozen=True)
class Population:
    """What is to be shared: a data set's training labels, and the share held out for validation."""

    dataset: str
    labels: NDArray[np.int64]
    validation: float
    sites: Sites | None = None


@dataclass(frozen=True)
class PartitionKind:
    """`by_alpha` where `partition.alpha` sets the skew, so that it belongs in a run's name."""

    share: Callable[[Population, PartitionOptions], Partition]
    by_alpha: bool = False


PARTITIONS: Registry[PartitionKind] = Registry("partition kind", "anchorfl.data.diary")


def draw_partition(
    labels: NDArray[np.int64],
    options: PartitionOptions,
    validation: float,
    dataset: str,
    sites: Sites | None = None,
) -> Partition:
    """The partition that the options describe, refused where nobody gets a sample."""
    population = Population(dataset, labels, validation, sites)
    partition = PARTITIONS.get(options.kind).share(population, options)
    if not any(map(len, partition.clients)):
        raise UserError(f"partition.alpha={options.alpha:g}: leaves every client without a sample")
    return partition


def draw_name(options: PartitionOptions) -> str:
    by_alpha = PARTITIONS.get(options.kind).by_alpha
    return f"{options.kind}-{options.alpha:g}" if by_alpha else options.kind


def after_shares(draw: Draw, population: Population, options: PartitionOptions) -> Partition:
    """Take off the validation and public shares, then draw who gets what is left."""
    assert options.seed is not None
    labels, validation = population.labels, population.validation
    generator = numpy_generator(options.seed, "partition")
    order = generator.permutation(len(labels))
    held, public = round(validation * len(labels)), round(options.public * len(labels))
    if held + public >= len(labels):
        raise UserError(
            f"data.validation={validation:g} and partition.public={options.public:g}:"
            " must leave some training samples to share"
        )
    rest = np.sort(order[held + public :])
    if options.clients > len(rest):
        raise UserError(
            f"partition.clients={options.clients}: must be at most {len(rest)},"
            f" the number of training samples there are to share"
        )
    groups = [rest[labels[rest] == label] for label in np.unique(labels)]
    return Partition(
        [np.sort(own) for own in draw(groups, options, generator)],
        np.sort(order[held : held + public]),
        np.sort(order[:held]),
    )


def deal(groups: Groups, clients: int, portions: Callable[[Indices], Sequence[Indices]]) -> Groups:
    """Each class's samples cut into one portion per client, then gathered by client."""
    cut = [portions(members) for members in groups]
    return [np.concatenate([parts[client] for parts in cut]) for client in range(clients)]


def dirichlet(groups: Groups, options: PartitionOptions, generator: Generator) -> Groups:
    """Disjoint: for each class, p over the clients ~ Dirichlet(alpha); every sample exactly once."""

    def portions(members: Indices) -> Sequence[Indices]:
        shares = generator.dirichlet(np.full(options.clients, options.alpha))
        cuts = np.round(np.cumsum(shares)[:-1] * len(members)).astype(int)
        return np.split(generator.permutation(members), cuts)

    return deal(groups, options.clients, portions)


def dirichlet_overlap(groups: Groups, options: PartitionOptions, generator: Generator) -> Groups:
    """The published FAFI draw: clients share images.

    For each class c, p over the clients ~ Dirichlet(alpha); client k takes
    min(n_c, round(10 n_c p_kc)) images of it, drawn afresh. The 10 is a constant of that code.
    """

    def portions(members: Indices) -> Sequence[Indices]:
        shares = generator.dirichlet(np.full(options.clients, options.alpha))
        wanted = [round(OVERLAP_FACTOR * len(members) * share) for share in shares]
        return [generator.choice(members, min(len(members), count), replace=False) for count in wanted]

    return deal(groups, options.clients, portions)


def shards(groups: Groups, options: PartitionOptions, generator: Generator) -> Groups:
    """Every client holds `partition.labels` labels; a label's samples are dealt to its holders.

    Clients take consecutive stretches of one shuffled circle of labels, so that every label has
    holders and their numbers differ by at most one.
    """
    classes, wanted = len(groups), options.labels
    least = -(-classes // options.clients)
    if not least <= wanted <= classes:
        raise UserError(
            f"partition.labels={wanted}: must be from {least} to {classes},"
            f" so that {options.clients} clients cover {classes} labels"
        )
    circle = iter(np.tile(generator.permutation(classes), -(-options.clients * wanted // classes)))
    owned: list[list[Indices]] = [[] for _ in range(options.clients)]
    holders: list[list[int]] = [[] for _ in range(classes)]
    for client in generator.permutation(options.clients):
        for label in islice(circle, wanted):
            holders[label].append(int(client))
    for members, owners in zip(groups, holders, strict=True):
        parts = np.array_split(generator.permutation(members), len(owners))
        for client, part in zip(owners, parts, strict=True):
            owned[client].append(part)
    return [np.concatenate(own) for own in owned]


def iid(groups: Groups, options: PartitionOptions, generator: Generator) -> Groups:
    """Disjoint parts of near-equal size, without regard to labels."""
    return np.array_split(generator.permutation(np.concatenate(groups)), options.clients)


def from_file(population: Population, options: PartitionOptions) -> Partition:
    """A saved partition.json, which also decides what is held out."""
    if options.file is None:
        raise UserError("partition.kind=file: name the file with partition.file=PATH")
    loaded = load_partition(Path(options.file), population.dataset, population.labels)
    wanted = round(population.validation * len(population.labels))
    if population.validation and len(loaded.validation) != wanted:
        raise UserError(
            f"data.validation={population.validation:g}: partition.file={options.file} decides that,"
            f" and it holds out {len(loaded.validation)} samples"
        )
    return loaded


def by_site(population: Population, options: PartitionOptions) -> Partition:
    """As the data came: every site's own."""
    sites = population.sites
    if sites is None:
        raise UserError("partition.kind=sites: needs data.name=sites, DIR/SITE/CLASS/picture")
    if population.validation or options.public:
        raise UserError("partition.kind=sites: shares the data as it came; hold nothing out of it")
    return Partition.by_owner(sites.owners, len(sites.names))


for name, draw, by_alpha in (
    ("dirichlet", dirichlet, True),
    ("dirichlet-overlap", dirichlet_overlap, True),
    ("shards", shards, False),
    ("iid", iid, False),
):
    PARTITIONS.register(name)(PartitionKind(partial(after_shares, draw), by_alpha))
PARTITIONS.register("file")(PartitionKind(from_file))
PARTITIONS.register("sites")(PartitionKind(by_site))
