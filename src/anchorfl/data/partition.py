"""Who holds which training sample, how skewed that is, and a file others can use."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from anchorfl.config import PartitionOptions
from anchorfl.errors import UserError
from anchorfl.randomness import numpy_generator

Indices = NDArray[np.int64]
Draw = Callable[[list[Indices], PartitionOptions, np.random.Generator], list[Indices]]
OVERLAP_FACTOR = 10


@dataclass(frozen=True)
class Partition:
    """Indices into the training data: what is held out, what is public, what each client owns."""

    clients: list[Indices]
    public: Indices
    validation: Indices

    @property
    def hash(self) -> str:
        """Equal for equal splits, whatever drew them."""
        digest = hashlib.sha256()
        for part in (self.validation, self.public, *self.clients):
            digest.update(np.int64(len(part)).tobytes() + part.astype("<i8").tobytes())
        return digest.hexdigest()

    def label_table(self, labels: NDArray[np.int64], classes: int) -> NDArray[np.int64]:
        """Samples by client (rows) and class (columns)."""
        return np.stack([np.bincount(labels[own], minlength=classes) for own in self.clients])

    def save(self, path: Path, dataset: str, labels: NDArray[np.int64]) -> None:
        content = {
            "dataset": dataset,
            "samples": len(labels),
            "labels": labels_hash(labels),
            "hash": self.hash,
            "clients": [own.tolist() for own in self.clients],
            "public": self.public.tolist(),
            "validation": self.validation.tolist(),
        }
        path.write_text(json.dumps(content))


def labels_hash(labels: NDArray[np.int64]) -> str:
    """Tells data sets of one name and size apart."""
    return hashlib.sha256(labels.astype("<i8").tobytes()).hexdigest()


def load_partition(path: Path, dataset: str, labels: NDArray[np.int64]) -> Partition:
    """A saved partition.json, refused where it does not fit the data."""
    try:
        content = json.loads(path.read_text())
        public, validation, *clients = (
            np.array(own, np.int64).reshape(-1)
            for own in (content["public"], content["validation"], *content["clients"])
        )
        stored = (content["dataset"], content["samples"], content["labels"])
    except OSError as error:
        raise UserError(f"partition.file={path}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, OverflowError):
        raise UserError(f"partition.file={path}: is not a partition.json") from None
    if stored != (dataset, len(labels), labels_hash(labels)):
        raise UserError(
            f"partition.file={path}: was drawn on {stored[0]} with {stored[1]} training samples,"
            f" not on this {dataset} with {len(labels)}"
        )
    if not any(map(len, clients)):
        raise UserError(f"partition.file={path}: gives no client a sample")
    partition = Partition(clients, public, validation)
    everything = np.concatenate([public, validation, *clients])
    if partition.hash != content["hash"] or np.any((everything < 0) | (everything >= len(labels))):
        raise UserError(f"partition.file={path}: its indices do not match its hash")
    return partition


def draw_partition(
    labels: NDArray[np.int64], options: PartitionOptions, validation: float, dataset: str
) -> Partition:
    """Take off the validation and public shares, then split what is left over the clients."""
    if options.kind == "file":
        if options.file is None:
            raise UserError("partition.kind=file: name the file with partition.file=PATH")
        loaded = load_partition(Path(options.file), dataset, labels)
        if validation and len(loaded.validation) != round(validation * len(labels)):
            raise UserError(
                f"data.validation={validation:g}: partition.file={options.file} decides that,"
                f" and it holds out {len(loaded.validation)} samples"
            )
        return loaded
    assert options.seed is not None
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
    clients = DRAWS[options.kind](groups, options, generator)
    if not any(map(len, clients)):
        raise UserError(f"partition.alpha={options.alpha:g}: leaves every client without a sample")
    return Partition(
        [np.sort(own) for own in clients],
        np.sort(order[held : held + public]),
        np.sort(order[:held]),
    )


def deal(
    groups: list[Indices],
    clients: int,
    portions: Callable[[Indices], Sequence[Indices]],
) -> list[Indices]:
    """Each class's samples cut into one portion a client, then gathered by client."""
    cut = [portions(members) for members in groups]
    return [np.concatenate([parts[client] for parts in cut]) for client in range(clients)]


def dirichlet(
    groups: list[Indices], options: PartitionOptions, generator: np.random.Generator
) -> list[Indices]:
    """Disjoint: for each class, p over the clients ~ Dirichlet(alpha); every sample exactly once."""

    def portions(members: Indices) -> Sequence[Indices]:
        shares = generator.dirichlet(np.full(options.clients, options.alpha))
        cuts = np.round(np.cumsum(shares)[:-1] * len(members)).astype(int)
        return np.split(generator.permutation(members), cuts)

    return deal(groups, options.clients, portions)


def dirichlet_overlap(
    groups: list[Indices], options: PartitionOptions, generator: np.random.Generator
) -> list[Indices]:
    """The published FAFI draw: clients share images.

    For each class c, p over the clients ~ Dirichlet(alpha); client k takes
    min(n_c, round(10 n_c p_kc)) images of it, drawn afresh. The 10 is a constant of that code.
    """

    def portions(members: Indices) -> Sequence[Indices]:
        shares = generator.dirichlet(np.full(options.clients, options.alpha))
        wanted = [round(OVERLAP_FACTOR * len(members) * share) for share in shares]
        return [generator.choice(members, min(len(members), count), replace=False) for count in wanted]

    return deal(groups, options.clients, portions)


def shards(
    groups: list[Indices], options: PartitionOptions, generator: np.random.Generator
) -> list[Indices]:
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


def iid(
    groups: list[Indices], options: PartitionOptions, generator: np.random.Generator
) -> list[Indices]:
    """Disjoint parts of near-equal size, without regard to labels."""
    return np.array_split(generator.permutation(np.concatenate(groups)), options.clients)


DRAWS: dict[str, Draw] = {
    "dirichlet": dirichlet,
    "dirichlet-overlap": dirichlet_overlap,
    "shards": shards,
    "iid": iid,
}


def entropy_bits(counts: NDArray[np.int64]) -> float:
    """H = -sum_c p_c log2 p_c of a client's labels; 0 for no sample or one class."""
    shares = counts[counts > 0] / max(counts.sum(), 1)
    return float(abs(-(shares * np.log2(shares)).sum()))
