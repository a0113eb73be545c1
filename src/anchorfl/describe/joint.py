"""Samples described under the encoders of all sites at once."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from anchorfl.describe.moments import with_constant
from anchorfl.randomness import generator

WIDEST = 4096
"""Columns of a joint description at most; more are projected onto as many."""


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
