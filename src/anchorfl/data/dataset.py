"""A data set in memory: uint8 images and labels, split into training and test."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from anchorfl.config import DataOptions
from anchorfl.data.catalog import DATASETS
from anchorfl.devices import send
from anchorfl.errors import UserError
from anchorfl.models import ImageFacts

Bytes = NDArray[np.uint8]
Labels = NDArray[np.int64]


@dataclass(frozen=True)
class Split:
    """Images N x channels x height x width as uint8, and N labels."""

    images: Bytes
    labels: Labels

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
    module, _, function = spec.reader.partition(":")
    train, test, class_names = getattr(import_module(module), function)(
        Path(options.root).expanduser(), options
    )
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
        raise UserError(f"{name}: the {part} images are not 8-bit pictures; the file is corrupt")
    if len(split.images) != len(split.labels) or len(split) == 0:
        raise UserError(
            f"{name}: {len(split.images)} {part} images but {len(split.labels)} labels;"
            " a file is truncated or corrupt"
        )
    if split.labels.min() < 0 or split.labels.max() >= classes:
        raise UserError(f"{name}: {part} labels lie outside 0..{classes - 1}; a file is corrupt")


class ImageStore:
    """One uint8 tensor of images on the training device where it fits, else on the host.

    A client is an index into it, kept on `index_device`; `take` hands a batch over on the training
    device either way, without waiting for it.
    """

    def __init__(self, split: Split, device: torch.device) -> None:
        self.device = device
        images, labels = torch.from_numpy(split.images), torch.from_numpy(split.labels)
        fits = device.type != "cuda" or images.nbytes < torch.cuda.mem_get_info(device)[0] // 2
        self.index_device = device if fits else torch.device("cpu")
        self.images, self.labels = images.to(self.index_device), labels.to(self.index_device)

    @property
    def pixels(self) -> int:
        height, width = self.images.shape[2:]
        return height * width

    def take(self, index: Tensor) -> tuple[Tensor, Tensor]:
        images, labels = self.images[index], self.labels[index]
        if self.index_device == self.device:
            return images, labels
        return send(images, self.device), send(labels, self.device)
