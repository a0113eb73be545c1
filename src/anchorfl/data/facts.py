"""What a network must know of its data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Shape = tuple[int, int, int]


@dataclass(frozen=True)
class ImageFacts:
    """The shape (channels, height, width) and normalisation of images, and how many classes."""

    shape: Shape
    classes: int
    mean: tuple[float, ...]
    std: tuple[float, ...]

    @staticmethod
    def from_json(facts: dict[str, Any]) -> ImageFacts:
        """The opposite of dataclasses.asdict, after JSON made lists of the tuples."""
        channels, height, width = facts["shape"]
        mean, std = tuple(facts["mean"]), tuple(facts["std"])
        return ImageFacts((channels, height, width), facts["classes"], mean, std)
