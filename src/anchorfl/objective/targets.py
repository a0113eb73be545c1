"""What clients align to, by name."""

from __future__ import annotations

from torch import Tensor

from anchorfl.objective.anchors import simplex_etf
from anchorfl.objective.losses import anchor_distance, bank_contrast
from anchorfl.objective.terms import AlignTarget, Views
from anchorfl.registry import ALIGN_TARGETS


class Anchors(AlignTarget):
    """Prototypes to fixed anchors, from V7 on."""

    formula = "mean over present classes and dimensions of (P - anchor)^2"

    def derived(self, classes: int, dimension: int, seed: int) -> Tensor | None:
        return simplex_etf(classes, dimension, seed)

    def loss(self, views: Views, target: Tensor) -> Tensor:
        return anchor_distance(views.prototypes, target, views.labels, views.weights)


class Bank(AlignTarget):
    """Features against a bank of public ones, V6."""

    formula = "-log of e(f g) / (e(f g) + sum of e(f b) over the bank), e(x) = e^2x, g the other view"
    needs_public = True

    def loss(self, views: Views, target: Tensor) -> Tensor:
        return bank_contrast(views.features, target, views.weights)


ALIGN_TARGETS.register("etf")(Anchors())
ALIGN_TARGETS.register("bank")(Bank())
