"""The fusions that know a description of the images which all clients share."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from anchorfl.describe import Sums, discriminant, ridge, with_constant
from anchorfl.fusion.base import FEATURES_AND_SKETCH, FUSIONS, SKETCH, Fusion, Head, ServerView, Uploads
from anchorfl.fusion.class_mean import Owners, OwnersHead, owners
from anchorfl.options import option
from anchorfl.tensors import Encoder, Encoders

LITTLE, ENOUGH, LEAST_APART = 0.1, 1000, 0.01
SHRINKAGE_HELP = "share of its mean that the covariance is raised by; unset: by the sums"
RIDGE_HELP = "share of its mean diagonal that X'X is raised by; unset: by the sums"


class SketchHead(Head):
    """Scores = [description(image) 1] W, in units of what a true class scores on average."""

    matrix: Tensor

    def __init__(self, view: ServerView, matrix: Tensor) -> None:
        super().__init__(matrix=matrix.to(view.device))
        self.describer = view.describer()

    def knows(self) -> Tensor:
        return known(self.matrix)

    def forward(self, features: Tensor, images: Tensor) -> Tensor:
        return with_constant(self.describer(images)) @ self.matrix


def known(matrix: Tensor) -> Tensor:
    """The classes that the sums have samples of."""
    return matrix.abs().sum(dim=0) > 0


def guiding(sums: Sums, shrinkage: float | None) -> Tensor:
    """The discriminant analysis of these sums, by a penalty of their own or a share of the variance."""
    if shrinkage is None:
        return discriminant(sums, sums.fit.penalty)
    return discriminant(sums, shrinkage * sums.mean_variance)


@dataclass(frozen=True)
class OnSketches(Fusion):
    """Every client sends X'X and X'Y of its sketches; no encoder is asked.

    Their sums are those of all data in one place, so label skew does not touch them. It is what one
    gets without training anything.
    """

    needs = ("sketch_moments",)
    mixes = True
    reads = SKETCH

    def encoders(self, uploads: Uploads) -> list[Encoder]:
        return []


@FUSIONS.register("sketch-lda")
@dataclass(frozen=True)
class SketchDiscriminant(OnSketches):
    """Linear discriminant analysis of a fixed, untrained sketch of the image; it uses no encoder.

    Scores are log-likelihoods of normal distributions with one covariance, from the clients' sums. How
    far its diagonal is raised follows from the sums by generalised cross-validation.
    """

    score_temperature = 0.12
    shrinkage: float | None = option(None, SHRINKAGE_HELP, above=0)

    def head(self, uploads: Uploads, encoders: Encoders, view: ServerView) -> Head:
        return SketchHead(view, guiding(view.sums(uploads), self.shrinkage))


@FUSIONS.register("sketch-ridge")
@dataclass(frozen=True)
class SketchRidge(OnSketches):
    """Ridge regression of the labels on the sketch that sketch-lda has; it uses no encoder."""

    score_temperature = 0.19
    ridge: float | None = option(None, RIDGE_HELP, above=0)

    def head(self, uploads: Uploads, encoders: Encoders, view: ServerView) -> Head:
        sums = view.sums(uploads)
        penalty = sums.fit.penalty if self.ridge is None else self.ridge * sums.mean_square
        return SketchHead(view, ridge(sums, penalty))


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
        alone = ~self.owners.described & self.guide.knows()
        return torch.where(alone, guidance, scores) + self.weight * guidance


@FUSIONS.register("sketch-guided")
@dataclass(frozen=True)
class SketchGuided(Fusion):
    """How close an image is to the sites' class means, set right by sketch-lda; one exchange.

    sum_k w_kc cos(f_k, m_kc) + g s_c, with s_c the scores of `sketch-lda`, in which a true class has
    1 on average. A client's encoder cannot tell what it never saw; the sketch saw all classes. It
    weighs more the more of the labels it explains, the fewer samples the encoders had of a class, and
    the less they tell their own classes apart: g = m / S, m = guidance (1 + 1000 / n) / (1 - R^2)^2,
    at most 1. R^2 comes from the sums, n is the number of samples behind a class's score, S the share
    of the features' variance between classes, at least 0.01; where R^2 is under a tenth, m is in
    proportion less. Scores are in units of S, so that an image's classes differ as much whatever g is.
    """

    needs = ("class_means", "sketch_moments")
    mixes = True
    score_temperature = 0.06
    reads = FEATURES_AND_SKETCH
    q: float = option(1.0, "exponent of a client's class count", at_least=0)
    guidance: float = option(0.05, "weight of the sketch's scores before it is scaled", at_least=0)
    shrinkage: float | None = option(None, SHRINKAGE_HELP, above=0)

    def head(self, uploads: Uploads, encoders: Encoders, view: ServerView) -> Head:
        sums = view.sums(uploads)
        matrix = guiding(sums, self.shrinkage)
        own = owners(uploads, self.q, view.device, known(matrix))
        most, apart = self.trust(own, uploads, sums.fit.explained)
        guide = SketchHead(view, apart * matrix)
        return GuidedHead(OwnersHead(*own, worth=apart), guide, most / apart)

    def trust(self, own: Owners, uploads: Uploads, explained: float) -> tuple[float, float]:
        """m, where the sketch explains so much of the labels, and S."""
        counts = torch.stack([upload.class_counts for upload in uploads]).to(own.weights)
        apart = behind_scores(own, counts, told_apart(uploads).to(counts)[:, None])
        return self.most(explained, behind_scores(own, counts, counts)), max(apart, LEAST_APART)

    def most(self, explained: float, samples: float) -> float:
        """m, of R^2 and n."""
        scarce = 1 + ENOUGH / max(samples, 1.0)
        weight = min(1.0, self.guidance * scarce / (1 - explained) ** 2)
        return weight * min(1.0, explained / LITTLE)


def behind_scores(own: Owners, counts: Tensor, values: Tensor) -> float:
    """sum_k w_kc v_kc, which stands behind the score of a class, on average over all samples."""
    shares = own.weights / own.weights.sum(dim=0).clamp(min=1e-12)
    by_class, totals = (shares * values).sum(dim=0), counts.sum(dim=0)
    return float((by_class * totals).sum() / totals.sum().clamp(min=1))


def told_apart(uploads: Uploads) -> Tensor:
    """Per client, the share of its features' variance that lies between its own classes, from 0 to 1.

    Features f have norm 1, so with the class means m_c, the classes' shares p_c of its samples and
    m = sum_c p_c m_c it is (sum_c p_c |m_c|^2 - |m|^2) / (1 - |m|^2); 0 for a single class.
    """
    shares = []
    for upload in uploads:
        means = upload.statistic("class_means")["mean"]
        counts = upload.class_counts.to(means) * means.any(dim=1)
        p = counts / counts.sum().clamp(min=1)
        middle = (p @ means).square().sum()
        between = p @ means.square().sum(dim=1) - middle
        shares.append(between / (1 - middle).clamp(min=1e-6))
    return torch.stack(shares).clamp(0, 1)
