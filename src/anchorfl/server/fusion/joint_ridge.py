"""The fusions with a second exchange: every client describes its data under everybody's encoder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from anchorfl.describe import Sketch, joint_rows, projection, ridge
from anchorfl.options import option
from anchorfl.registry import FUSIONS
from anchorfl.server.fusion.base import FEATURES_AND_SKETCH, Fusion, Head, ServerView
from anchorfl.tensors import Tensors
from anchorfl.wire import Upload


class JointHead(Head):
    """Scores = [f_1 ... f_K 1] W, or [f_1 ... f_K sketch 1] W; a true class has 1 on average."""

    matrix: Tensor

    def __init__(self, matrix: Tensor, sketch: Sketch | None = None) -> None:
        super().__init__()
        self.sketch = sketch
        self.register_buffer("matrix", matrix)

    def forward(self, features: Tensor, images: Tensor) -> Tensor:
        others = () if self.sketch is None else (self.sketch(images),)
        return joint_rows(features, *others) @ self.matrix


def unprojected(matrix: Tensor, clients: int, width: int) -> Tensor:
    """W for features as they are: f_k (P W_k) is (f_k P) W_k, where clients projected theirs by P."""
    narrow = projection(clients, width)
    if narrow is None:
        return matrix
    end = clients * narrow.shape[1]
    blocks = narrow.to(matrix) @ matrix[:end].view(clients, narrow.shape[1], -1)
    return torch.cat([blocks.flatten(0, 1), matrix[end:]])


@FUSIONS.register("joint-ridge")
@dataclass(frozen=True)
class JointRidge(Fusion):
    """Ridge regression of the labels on the features of all encoders: as if all data were in one place.

    With X_k client k's samples under all encoders, N_k x (K d + 1), and Y_k their labels as unit rows:
    W = (sum_k X_k' X_k + r I)^-1 sum_k X_k' Y_k. The sums are exact, so W does not depend on how the
    data are spread. It costs a second exchange: the encoders go to every client, X_k'X_k and X_k'Y_k
    come back, over classes of `upload.min_count` samples or more.
    """

    needs = ("joint_moments",)
    score_temperature = 0.15
    ridge: float = option(0.001, "ridge penalty, relative to the mean diagonal of X'X", above=0)

    def head(self, uploads: Sequence[Upload], encoders: Sequence[Tensors], view: ServerView) -> Head:
        matrix = ridge((upload.statistic(self.needs[0]) for upload in uploads), self.ridge)
        matrix = unprojected(matrix.to(view.device), len(uploads), uploads[0].prototypes.shape[1])
        return JointHead(matrix, self.sketch(view))

    def sketch(self, view: ServerView) -> Sketch | None:
        return None


@FUSIONS.register("joint-sketch-ridge")
@dataclass(frozen=True)
class JointSketchRidge(JointRidge):
    """As joint-ridge, the fixed sketch of `sketch-ridge` among the features."""

    needs = ("joint_sketch_moments",)
    reads = FEATURES_AND_SKETCH

    def sketch(self, view: ServerView) -> Sketch | None:
        return view.sketch()
