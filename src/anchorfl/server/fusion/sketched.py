"""The fusions that know a description of the images which all clients share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from anchorfl.describe import Describer, ridge, with_constant
from anchorfl.models import Encoder
from anchorfl.options import option
from anchorfl.registry import FUSIONS
from anchorfl.server.fusion.base import FEATURES_AND_SKETCH, SKETCH, Fusion, Head, ServerView
from anchorfl.server.fusion.class_mean import OwnersHead, owners_head
from anchorfl.wire import Upload


class SketchHead(Head):
    """Scores = [description(image) 1] W, in units of what a true class scores on average."""

    matrix: Tensor

    def __init__(self, describer: Describer, matrix: Tensor) -> None:
        super().__init__()
        self.describer = describer
        self.register_buffer("matrix", matrix)

    def knows(self) -> Tensor:
        """The classes that the sums have samples of."""
        return self.matrix.abs().sum(dim=0) > 0

    def forward(self, features: Tensor, images: Tensor) -> Tensor:
        return with_constant(self.describer(images)) @ self.matrix


def sketch_head(uploads: Sequence[Upload], view: ServerView, share: float) -> SketchHead:
    """Ridge regression of the labels on sketches."""
    matrix = ridge((upload.statistic("sketch_moments") for upload in uploads), share)
    return SketchHead(view.describer(), matrix.to(view.device))


@FUSIONS.register("sketch-ridge")
@dataclass(frozen=True)
class SketchRidge(Fusion):
    """Ridge regression of the labels on a fixed, untrained sketch of the image; it uses no encoder.

    Every client sends X'X and X'Y of its sketches; their sums are those of all data in one place, so
    label skew does not touch it. It is what one gets without training anything.
    """

    needs = ("sketch_moments",)
    mixes = True
    score_temperature = 0.19
    reads = SKETCH
    ridge: float = option(0.001, "ridge penalty, relative to the mean diagonal of X'X", above=0)

    def encoders(self, uploads: Sequence[Upload]) -> list[Encoder]:
        return []

    def head(self, uploads: Sequence[Upload], encoders: Sequence[Encoder], view: ServerView) -> Head:
        return sketch_head(uploads, view, self.ridge)


class GuidedHead(Head):
    """Scores = sum_k w_kc cos(f_k, m_kc) + weight * sketch's scores.

    A class whose samples are in the sums, and of which no mean is there, is scored by the sketch alone:
    either score is about 1 where it is true.
    """

    def __init__(self, owners: OwnersHead, guide: SketchHead, weight: float) -> None:
        super().__init__()
        self.owners, self.guide, self.weight = owners, guide, weight

    def forward(self, features: Tensor, images: Tensor) -> Tensor:
        guidance: Tensor = self.guide(features, images)
        scores: Tensor = self.owners(features, images)
        alone = (self.owners.missing < 0) & self.guide.knows()
        return torch.where(alone, guidance, scores) + self.weight * guidance


@FUSIONS.register("sketch-guided")
@dataclass(frozen=True)
class SketchGuided(Fusion):
    """class-mean's scores plus g times sketch-ridge's; one exchange.

    sum_k w_kc cos(f_k, m_kc) + g s_c, with s_c the scores of `sketch-ridge`, in which a true class has
    1 on average. A client's encoder cannot tell what it never saw; the sketch saw all classes.
    """

    needs = ("class_means", "sketch_moments")
    mixes = True
    score_temperature = 0.037
    reads = FEATURES_AND_SKETCH
    q: float = option(1.0, "exponent of a client's class count", at_least=0)
    guidance: float = option(0.1, "g, weight of the sketch's scores", at_least=0)
    ridge: float = option(0.001, "ridge penalty, relative to the mean diagonal of X'X", above=0)

    def head(self, uploads: Sequence[Upload], encoders: Sequence[Encoder], view: ServerView) -> Head:
        guide = sketch_head(uploads, view, self.ridge)
        owners = owners_head(uploads, self.q, view.device, guide.knows())
        return GuidedHead(owners, guide, self.guidance)
