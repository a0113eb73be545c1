"""The fusions with a second exchange: every client describes its data under everybody's encoder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from anchorfl.describe import Describer, Sums, joint_rows, projections, ridge, summed
from anchorfl.fusion.base import FEATURES_AND_SKETCH, FUSIONS, Fusion, Head, ServerView, Uploads
from anchorfl.options import option
from anchorfl.tensors import Encoders


class JointHead(Head):
    """Scores = [f_1 ... f_K 1] W, or [f_1 ... f_K description 1] W; a true class has 1 on average."""

    matrix: Tensor

    def __init__(
        self, matrix: Tensor, widths: Sequence[int], describer: Describer | None = None
    ) -> None:
        super().__init__(matrix=matrix)
        self.widths, self.describer = tuple(widths), describer

    def forward(self, features: Tensor, images: Tensor) -> Tensor:
        others = () if self.describer is None else (self.describer(images),)
        own = [each[:, :width] for each, width in zip(features, self.widths, strict=True)]
        return joint_rows(own, *others) @ self.matrix


def unprojected(matrix: Tensor, widths: Sequence[int]) -> Tensor:
    """W for features as they are: f_k (P W_k) is (f_k P) W_k, where clients projected theirs by P."""
    blocks, start = [], 0
    for width, narrow in zip(widths, projections(widths), strict=True):
        end = start + (width if narrow is None else narrow.shape[1])
        block = matrix[start:end]
        blocks.append(block if narrow is None else narrow.to(matrix) @ block)
        start = end
    return torch.cat([*blocks, matrix[start:]])


@FUSIONS.register("joint-ridge")
@dataclass(frozen=True)
class JointRidge(Fusion):
    """Ridge regression of the labels on the features of all encoders: as if all data were in one place.

    With X_k client k's samples under all encoders, N_k x (K d + 1), and Y_k their labels as unit rows:
    W = (sum_k X_k' X_k + r I)^-1 sum_k X_k' Y_k, the constant not penalised. The sums are exact, so W
    does not depend on how the data are spread. It costs a second exchange: the encoders go to every
    client, X_k'X_k and X_k'Y_k come back, over classes of `upload.min_count` samples or more.
    """

    needs = ("joint_moments",)
    mixes = True
    score_temperature = 0.15
    ridge: float = option(0.001, "ridge penalty, relative to the mean diagonal of X'X", above=0)

    def head(self, uploads: Uploads, encoders: Encoders, view: ServerView) -> Head:
        sums = Sums.of(summed(upload.statistic(self.needs[0]) for upload in uploads))
        matrix = ridge(sums, self.ridge * sums.mean_square)
        widths = [upload.prototypes.shape[1] for upload in uploads]
        return JointHead(unprojected(matrix.to(view.device), widths), widths, self.describer(view))

    def describer(self, view: ServerView) -> Describer | None:
        return None


@FUSIONS.register("joint-sketch-ridge")
@dataclass(frozen=True)
class JointSketchRidge(JointRidge):
    """As joint-ridge, the description of `sketch-ridge` among the features."""

    needs = ("joint_sketch_moments",)
    reads = FEATURES_AND_SKETCH

    def describer(self, view: ServerView) -> Describer | None:
        return view.describer()
