"""What clients align to, by name: the loss A and its options.

The losses are imported where they are computed, so that a wrong word is refused at once.
"""

from __future__ import annotations

from dataclasses import dataclass

from anchorfl.objective.terms import ALIGN_TARGETS, AlignTarget, Views
from anchorfl.options import option
from anchorfl.tensors import Tensor


@ALIGN_TARGETS.register("etf")
@dataclass(frozen=True)
class Anchors(AlignTarget):
    """Prototypes to fixed anchors, a simplex ETF that the seed fixes: from V7 on."""

    fixed = True

    classes: str = option(
        "all",
        "prototypes that A pulls in a step: those of all classes, or of the batch's: all, batch",
        choices=("all", "batch"),
    )

    @property
    def formula(self) -> str:
        which = "all classes" if self.classes == "all" else "the batch's classes"
        return f"mean over {which} and dimensions of (P - anchor)^2"

    def derived(self, classes: int, dimension: int, seed: int) -> Tensor | None:
        from anchorfl.objective.anchors import simplex_etf

        return simplex_etf(classes, dimension, seed)

    def loss(self, views: Views, target: Tensor) -> Tensor:
        from anchorfl.objective.losses import batch_anchor_distance

        if self.classes == "all":
            return (views.prototypes - target).square().mean()
        return batch_anchor_distance(views.prototypes, target, views.labels, views.weights)


@ALIGN_TARGETS.register("bank")
@dataclass(frozen=True)
class Bank(AlignTarget):
    """Features against a bank of public ones that a teacher of the server encoded: V6."""

    needs_public = True

    contrast: str = option(
        "views",
        "contrast, the bank among the negatives: of a view with the other, or SupCon: views, supcon",
        choices=("views", "supcon"),
    )
    temperature: float = option(0.5, "temperature of the contrast", above=0)
    bank_size: int = option(4096, "public features in the bank, at most", at_least=1)
    teacher_epochs: int = option(20, "epochs that the server trains the bank's encoder", at_least=1)
    teacher_loss: str = option(
        "v4", "what the teacher minimises: v4, cross-entropy", choices=("v4", "cross-entropy")
    )
    teacher_augment: bool = option(True, "train the teacher on augmented views")
    teacher_start: str = option(
        "clients",
        "weights the teacher starts from: those of the clients, or its own: clients, own",
        choices=("clients", "own"),
    )

    @property
    def formula(self) -> str:
        scaled = f"e(x) = e^(x/{self.temperature:g})"
        if self.contrast == "supcon":
            return f"SupCon(f, y; {self.temperature:g}) with the bank among the negatives"
        return f"-log of e(f g) / (e(f g) + sum of e(f b) over the bank), {scaled}, g the other view"

    def loss(self, views: Views, target: Tensor) -> Tensor:
        from anchorfl.objective.losses import bank_contrast, supervised_contrast

        if self.contrast == "supcon":
            return supervised_contrast(
                views.features, views.labels, views.weights, self.temperature, target
            )
        return bank_contrast(views.features, target, views.weights, self.temperature)


@ALIGN_TARGETS.register("class-means")
@dataclass(frozen=True)
class ClassMeans(AlignTarget):
    """Features to the mean features of their class over all clients, one round old; 0 where none is."""

    @property
    def formula(self) -> str:
        return "mean over samples and dimensions of (f - mean of its class)^2"

    def derived(self, classes: int, dimension: int, seed: int) -> Tensor | None:
        from torch import zeros

        return zeros(classes, dimension)

    def loss(self, views: Views, target: Tensor) -> Tensor:
        from anchorfl.objective.losses import class_mean_distance

        return class_mean_distance(views.features, target, views.labels, views.weights)
