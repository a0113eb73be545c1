"""A data set in memory: uint8 images and labels, split into training and test."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from anchorfl.config import DataOptions
from anchorfl.data.facts import ImageFacts
from anchorfl.errors import UserError
from anchorfl.registry import DATASETS

Bytes = NDArray[np.uint8]
Labels = NDArray[np.int64]


@dataclass(frozen=True)
class Sites:
    """Where samples come from: the names of the places, and for each sample the number of its own."""

    names: list[str]
    owners: Labels


@dataclass(frozen=True)
class Split:
    """Images N x channels x height x width as uint8, N labels, and whose they are if that is known."""

    images: Bytes
    labels: Labels
    sites: Sites | None = None

    def __len__(self) -> int:
        return len(self.labels)


@dataclass(frozen=True)
class Dataset:
    name: str
    train: Split
    test: Split
    class_names: list[str]
    facts: ImageFacts


def load_dataset(options: DataOptions) -> Dataset:
    """Read a data set from its official files (or from the package that embeds it)."""
    spec = DATASETS.get(options.name)
    train, test, class_names = spec.reader(Path(options.root).expanduser(), options)
    for part, split in (("training", train), ("test", test)):
        check_split(options.name, part, split, len(class_names))
    if train.images.shape[1:] != test.images.shape[1:]:
        raise UserError(f"{options.name}: training and test images differ in size; a file is corrupt")
    channels, height, width = train.images.shape[1:]
    facts = ImageFacts(
        (channels, height, width), len(class_names), spec.mean[:channels], spec.std[:channels]
    )
    return Dataset(options.name, train, test, class_names, facts)


def check_split(name: str, part: str, split: Split, classes: int) -> None:
    """What every reader promises, whatever the file held."""
    if split.images.dtype != np.uint8 or split.images.ndim != 4:
        raise UserError(f"{name}: the {part} images are not 8-bit images; the file is corrupt")
    if len(split.images) != len(split.labels) or len(split) == 0:
        raise UserError(
            f"{name}: {len(split.images)} {part} images but {len(split.labels)} labels;"
            " a file is truncated or corrupt"
        )
    if split.labels.min() < 0 or split.labels.max() >= classes:
        raise UserError(f"{name}: {part} labels lie outside 0..{classes - 1}; a file is corrupt")
