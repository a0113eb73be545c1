"""A data set in memory: uint8 images and labels, split into training and test."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from anchorfl.data.facts import ImageFacts

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
