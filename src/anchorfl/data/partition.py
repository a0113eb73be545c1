"""Who holds which training sample, and a file others can use."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from anchorfl.errors import UserError
from anchorfl.files import write_whole

Indices = NDArray[np.int64]


@dataclass(frozen=True)
class Partition:
    """Indices into the training data: what is held out, what is public, what each client owns."""

    clients: list[Indices]
    public: Indices
    validation: Indices

    @staticmethod
    def by_owner(owners: Indices, clients: int) -> Partition:
        """By the number of each sample's client; nothing is held out or public."""
        nothing = np.array([], np.int64)
        return Partition([np.flatnonzero(owners == k) for k in range(clients)], nothing, nothing)

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
        write_whole(path, json.dumps(content))


def labels_hash(labels: NDArray[np.int64]) -> str:
    """Distinguishes data sets of one name and size."""
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
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
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
    if any(len(np.unique(own)) < len(own) for own in (public, validation, *clients)):
        raise UserError(f"partition.file={path}: gives a client the same sample twice")
    if np.isin(validation, np.concatenate([public, *clients])).any():
        raise UserError(f"partition.file={path}: holds out samples for validation that a client has")
    return partition
