"""Samples described under the encoders of all sites at once."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from anchorfl.describe.moments import with_constant
from anchorfl.randomness import generator

WIDEST = 4096
"""Columns of a joint description at most; more are projected onto as many."""


def joint_rows(features: Sequence[Tensor], *others: Tensor) -> Tensor:
    """N x d features of each encoder -> N x (sum d + ...): all of them, others, and a constant."""
    return with_constant(torch.cat([*features, *others], dim=1))


def projected(features: Sequence[Tensor]) -> list[Tensor]:
    """Where all widths add up to more than `WIDEST`, wide features times a random matrix."""
    matrices = projections([each.shape[1] for each in features])
    return [
        each if matrix is None else each @ matrix.to(each)
        for each, matrix in zip(features, matrices, strict=True)
    ]


def projections(widths: Sequence[int]) -> list[Tensor | None]:
    """By encoder, d x WIDEST/K, the same everywhere; None where nothing needs projecting."""
    narrow = max(WIDEST // max(len(widths), 1), 1)
    if sum(widths) <= WIDEST:
        return [None] * len(widths)
    return [None if width <= narrow else random_matrix(width, narrow) for width in widths]


def random_matrix(width: int, narrow: int) -> Tensor:
    return torch.randn(width, narrow, generator=generator(0, "projection")) / math.sqrt(narrow)
