"""What a client says of its own samples beside its weights: sums that a fusion asks for.

Each statement is a function of some samples that returns tensors; over all samples they are added.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from anchorfl.moments import second_moments, with_constant
from anchorfl.randomness import generator
from anchorfl.sketch import Sketch
from anchorfl.tensors import Tensors

WIDEST = 4096
"""Columns of a joint description at most; more are projected onto as many."""


@dataclass
class Seen:
    """Some of a client's samples, and what they can be described with.

    `classes` (N x C) are unit rows and `counts` (C) how many samples the client has of each, both 0
    for a class that may not be told (`upload.min_count`).
    """

    images: Tensor
    classes: Tensor
    counts: Tensor
    encoders: Sequence[Tensors]
    encode: Callable[[Tensors, Tensor], Tensor]
    make_sketch: Callable[[], Sketch]

    @cached_property
    def features(self) -> Tensor:
        """K x N x d, of the encoders in question: the client's own, or everybody's."""
        return torch.stack([self.encode(weights, self.images).float() for weights in self.encoders])

    @cached_property
    def sketches(self) -> Tensor:
        rows: Tensor = self.make_sketch()(self.images)
        return rows

    @property
    def told(self) -> Tensor:
        """N x 1: 1 for a sample that may be told of."""
        return self.classes.sum(dim=1, keepdim=True)

    def moments(self, rows: Tensor) -> Tensors:
        return second_moments(rows * self.told, self.classes)


def class_means(seen: Seen) -> Tensors:
    """Each class's mean normalised feature, 0 where it may not be told."""
    return {"mean": (seen.classes / seen.counts.clamp(min=1)).T @ seen.features[0]}


def feature_moments(seen: Seen) -> Tensors:
    """Mean and mean square of every feature."""
    features, share = seen.features[0], seen.told / seen.counts.sum().clamp(min=1)
    return {"mean": (share * features).sum(dim=0), "square": (share * features**2).sum(dim=0)}


def sketch_moments(seen: Seen) -> Tensors:
    return seen.moments(with_constant(seen.sketches))


def joint_moments(seen: Seen) -> Tensors:
    return seen.moments(joint_rows(projected(seen.features)))


def joint_sketch_moments(seen: Seen) -> Tensors:
    return seen.moments(joint_rows(projected(seen.features), seen.sketches))


def joint_rows(features: Tensor, *others: Tensor) -> Tensor:
    """K x N x d features -> N x (K d + ...): those of all encoders, others, and a constant."""
    return with_constant(torch.cat([features.transpose(0, 1).flatten(1), *others], dim=1))


def projected(features: Tensor) -> Tensor:
    """Where K d is more than `WIDEST`, each encoder's features times one random matrix."""
    matrix = projection(len(features), features.shape[2])
    return features if matrix is None else features @ matrix.to(features)


def projection(clients: int, width: int) -> Tensor | None:
    """d x WIDEST/K, the same everywhere; None where nothing needs projecting."""
    if clients * width <= WIDEST:
        return None
    narrow = max(WIDEST // clients, 1)
    return torch.randn(width, narrow, generator=generator(0, "projection")) / math.sqrt(narrow)


Statement = Callable[[Seen], Tensors]
STATEMENTS: dict[str, Statement] = {
    "class_means": class_means,
    "feature_moments": feature_moments,
    "sketch_moments": sketch_moments,
}
"""Made beside the weights, under the client's own encoder."""

SECOND_STATEMENTS: dict[str, Statement] = {
    "joint_moments": joint_moments,
    "joint_sketch_moments": joint_sketch_moments,
}
"""Made in a second exchange, under everybody's encoders."""

LASTING = ("sketch_moments",)
"""Those that no training changes: made once."""
