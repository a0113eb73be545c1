"""The fusion with a second exchange: every client describes its data under everybody's encoder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from anchorfl.fusion.base import FUSIONS, Fusion, Head, ServerView
from anchorfl.options import option
from anchorfl.tensors import Tensors
from anchorfl.upload import Upload


def side_by_side(features: Tensor) -> Tensor:
    """K x N x d features -> N x (K d + 1): those of all encoders, and a constant."""
    joined = features.transpose(0, 1).flatten(1)
    return torch.cat([joined, joined.new_ones(len(joined), 1)], dim=1)


class LinearHead(Head):
    """Scores = [f_1 ... f_K 1] W."""

    matrix: Tensor

    def __init__(self, matrix: Tensor) -> None:
        super().__init__()
        self.register_buffer("matrix", matrix)

    def forward(self, features: Tensor) -> Tensor:
        return side_by_side(features) @ self.matrix


@FUSIONS.register("joint-ridge")
@dataclass(frozen=True)
class JointRidge(Fusion):
    """Ridge regression of the labels on the features of all encoders: as if all data were in one place.

    With X_k client k's samples under all encoders, N_k x (K d + 1), and Y_k their labels as unit rows:
    W = (sum_k X_k' X_k + r I)^-1 sum_k X_k' Y_k, r a share of the mean eigenvalue. The sums are exact,
    so W does not depend on how the data are spread. It costs a second exchange: the encoders go to
    every client, X_k'[X_k Y_k] comes back, over classes of `upload.min_count` samples or more.
    """

    needs = ("joint_moments",)
    ridge: float = option(0.01, "r as a share of the mean eigenvalue", above=0)

    def head(self, uploads: Sequence[Upload], encoders: Sequence[Tensors], view: ServerView) -> Head:
        told = [upload.joint_moments for upload in uploads if upload.joint_moments is not None]
        total = torch.stack([moments.double() for moments in told]).sum(dim=0)
        width = len(total)
        gram, cross = total[:, :width], total[:, width:]
        size = self.ridge * gram.diagonal().mean().clamp(min=1e-12)
        shifted = gram + size * torch.eye(width, dtype=gram.dtype, device=gram.device)
        return LinearHead(torch.linalg.solve(shifted, cross).float().to(view.device))
