"""Second moments of rows and labels: clients send sums, and a server adds them up."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce

import torch
import torch.nn.functional as F
from torch import Tensor

from anchorfl.tensors import Tensors


def second_moments(rows: Tensor, targets: Tensor) -> Tensors:
    """X'X, of which the triangle on and above the diagonal is sent, and X'Y."""
    gram = rows.T @ rows
    return {"triangle": gram[triangle(len(gram), gram.device)], "cross": rows.T @ targets}


def triangle(width: int, device: torch.device) -> Tensor:
    return torch.ones(width, width, dtype=torch.bool, device=device).triu()


def summed(moments: Iterable[Tensors]) -> Tensors:
    """Of all rows together, wherever they are."""

    def added(first: Tensors, second: Tensors) -> Tensors:
        return {name: wide(value) + wide(second[name]) for name, value in first.items()}

    return reduce(added, moments)


def full_gram(half: Tensor, width: int) -> Tensor:
    """X'X, width x width, of the triangle that was sent."""
    values = wide(half)
    mask = triangle(width, values.device)
    gram = values.new_zeros(mask.shape)
    gram[mask] = values
    return gram + gram.triu(1).T


def wide(values: Tensor) -> Tensor:
    """In double precision."""
    return supported(values).double()


def supported(values: Tensor) -> Tensor:
    """Where there are double precision and 8 bits: Apple's GPUs have neither."""
    return values.cpu() if values.device.type == "mps" else values


def with_constant(rows: Tensor) -> Tensor:
    """A last column of ones: with targets its moments are the counts of the classes."""
    return F.pad(rows, (0, 1), value=1.0)
