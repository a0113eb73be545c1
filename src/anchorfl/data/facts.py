"""What a network must know of its data."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

Shape = tuple[int, int, int]


LARGEST_SIDE, MOST_CLASSES = 4096, 1_000_000


@dataclass(frozen=True)
class ImageFacts:
    """The shape (channels, height, width) and normalisation of images, and how many classes."""

    shape: Shape
    classes: int
    mean: tuple[float, ...]
    std: tuple[float, ...]

    @staticmethod
    def from_json(facts: dict[str, Any]) -> ImageFacts:
        """The opposite of dataclasses.asdict, after JSON made lists of the tuples.

        ValueError where it cannot be of images: 1 or 3 channels, sides and classes within reason.
        """
        channels, height, width = (whole(value, LARGEST_SIDE) for value in facts["shape"])
        classes = whole(facts["classes"], MOST_CLASSES)
        mean, std = (tuple(float(value) for value in facts[key]) for key in ("mean", "std"))
        if channels not in (1, 3) or not len(mean) == len(std) == channels:
            raise ValueError("channels")
        if not all(map(math.isfinite, (*mean, *std))) or min(std) <= 0:
            raise ValueError("normalisation")
        return ImageFacts((channels, height, width), classes, mean, std)


def whole(value: object, most: int) -> int:
    """A whole number from 1 to `most`; ValueError for anything else."""
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
        raise ValueError(f"{value!r}")
    return value
