"""What a data set is by name, and how one is read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from anchorfl.config import DataOptions
from anchorfl.data.dataset import Dataset, Split
from anchorfl.data.facts import ImageFacts
from anchorfl.errors import UserError
from anchorfl.registry import Registry

Reader = Callable[[Path, DataOptions], tuple[Split, Split, list[str]]]
"""(data.root, options) -> training split, test split, class names."""


@dataclass(frozen=True)
class Download:
    """One official file: its address, its md5, and its name under the data set's folder."""

    url: str
    md5: str

    @property
    def file(self) -> str:
        return self.url.rsplit("/", 1)[1]


@dataclass(frozen=True)
class DatasetSpec:
    """`size` is the side in pixels (None: the user's choice); an `embedded` one needs no file.

    Official files lie in a `folder` of the name of the data set, unless they come in one of another.
    """

    summary: str
    terms: str
    reader: Reader
    size: int | None
    mean: tuple[float, ...]
    std: tuple[float, ...]
    flip: bool = False
    folder: str = ""
    downloads: tuple[Download, ...] = ()
    defaults: Mapping[str, object] = field(default_factory=dict)
    embedded: bool = False


DATASETS: Registry[DatasetSpec] = Registry("data set", "anchorfl.data.catalog")


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
