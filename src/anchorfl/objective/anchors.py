"""Fixed global anchors that every client derives from the same seed."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from anchorfl.errors import UserError
from anchorfl.randomness import generator


def simplex_etf(classes: int, dimension: int, seed: int) -> Tensor:
    """A simplex equiangular tight frame: C unit rows in d dimensions, every inner product -1/(C-1).

    anchors = sqrt(C/(C-1)) Q R', where the columns of Q (C x C-1) are Helmert's orthonormal basis of
    the complement of the ones vector and R (d x C-1) has orthonormal columns drawn from the seed.
    The textbook form sqrt(C/(C-1)) U (I - 11'/C) needs d >= C; this is such a frame for any d >= C-1.
    Source: Papyan, Han and Donoho, 2020 (neural collapse).
    """
    if classes < 2:
        raise UserError(f"anchors need at least 2 classes, there is {classes}")
    if dimension < classes - 1:
        raise UserError(
            f"{classes} anchors need features of at least {classes - 1} dimensions,"
            f" the encoder gives {dimension}: choose a wider model.name"
        )
    draw = torch.randn(
        dimension, classes - 1, dtype=torch.float64, generator=generator(seed, "anchors")
    )
    basis = torch.linalg.qr(draw).Q
    scale = math.sqrt(classes / (classes - 1))
    anchors: Tensor = scale * (helmert(classes) @ basis.T)
    return anchors.float()


def helmert(classes: int) -> Tensor:
    """C x C-1, in closed form, so that every site gets the same numbers.

    Column k (from 1) holds 1/sqrt(k(k+1)) in its first k rows and -k/sqrt(k(k+1)) in the next.
    """
    column = torch.arange(1, classes, dtype=torch.float64)
    row = torch.arange(classes, dtype=torch.float64)[:, None]
    values = (row < column).double() - column * (row == column)
    return values / (column * (column + 1)).sqrt()
