"""The fusions that average: features, probabilities, or parameters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from anchorfl.models import Encoder
from anchorfl.options import option
from anchorfl.randomness import generator
from anchorfl.registry import FUSIONS
from anchorfl.server.fusion.base import (
    PROTOTYPES,
    Fusion,
    Head,
    ServerView,
    side_by_side,
    size_weights,
)
from anchorfl.tensors import Tensors
from anchorfl.wire import Upload


class PrototypeHead(Head):
    """Scores = normalise(sum_k w_k f_k) P', with fixed client weights w and one matrix P."""

    weights: Tensor
    prototypes: Tensor

    def __init__(self, weights: Tensor, prototypes: Tensor) -> None:
        super().__init__()
        self.register_buffer("weights", weights)
        self.register_buffer("prototypes", prototypes)

    def forward(self, features: Tensor, images: Tensor) -> Tensor:
        return self.score(torch.einsum("k,knd->nd", self.weights, features))

    def score(self, fused: Tensor) -> Tensor:
        return F.normalize(fused, dim=1) @ self.prototypes.T


def mean_prototypes(uploads: Sequence[Upload]) -> Tensor:
    return torch.stack([upload.prototypes for upload in uploads]).mean(dim=0)


class RawPrototypeHead(PrototypeHead):
    """As its parent, on features as the encoders give them: a client weighs by their norm too."""

    raw = True


@FUSIONS.register("feature-mean")
@dataclass(frozen=True)
class FeatureMean(Fusion):
    """Size-weighted sum of raw features, normalised then, scored on the plain mean of the prototypes.

    Source: the rule behind all tables of the diary.
    """

    reads = PROTOTYPES

    def head(self, uploads: Sequence[Upload], encoders: Sequence[Encoder], view: ServerView) -> Head:
        return RawPrototypeHead(size_weights(uploads), mean_prototypes(uploads))


@FUSIONS.register("normalised-feature-mean")
@dataclass(frozen=True)
class NormalisedFeatureMean(Fusion):
    """As feature-mean, each client's features normalised before they are added."""

    reads = PROTOTYPES

    def head(self, uploads: Sequence[Upload], encoders: Sequence[Encoder], view: ServerView) -> Head:
        return PrototypeHead(size_weights(uploads), mean_prototypes(uploads))


class NoiseWeightedHead(PrototypeHead):
    """As its parent, but each sample weighs a client by 1 - cos(f_k(x), f_k(noise))."""

    noise: Tensor

    def __init__(self, noise: Tensor, prototypes: Tensor) -> None:
        super().__init__(torch.ones(len(noise), device=noise.device), prototypes)
        self.register_buffer("noise", noise)

    def forward(self, features: Tensor, images: Tensor) -> Tensor:
        distance = 1 - torch.einsum("knd,kd->kn", features, self.noise)
        return self.score(torch.einsum("kn,knd->nd", distance, features))


@FUSIONS.register("iffi")
@dataclass(frozen=True)
class NoiseWeighted(Fusion):
    """Each client's feature weighted by its cosine distance to its own feature of one noise image.

    The noise image is uniform in 0..1 and fixed by the seed: an encoder to which a sample looks like
    noise has little to add. Source: FAFI (ICML 2025), informative feature fusion.
    """

    reads = PROTOTYPES

    def head(self, uploads: Sequence[Upload], encoders: Sequence[Encoder], view: ServerView) -> Head:
        image = torch.rand(1, *view.shape, generator=generator(view.seed, "noise"))
        image = image.to(view.device)
        noise = torch.cat([view.encode(weights, image) for weights in encoders])
        return NoiseWeightedHead(noise, mean_prototypes(uploads))


class SoftmaxMeanHead(Head):
    """Scores = log sum_k w_k softmax(f_k P_k' / t)."""

    weights: Tensor
    prototypes: Tensor

    def __init__(self, weights: Tensor, prototypes: Tensor, temperature: float) -> None:
        super().__init__()
        self.register_buffer("weights", weights)
        self.register_buffer("prototypes", prototypes)
        self.temperature = temperature

    def forward(self, features: Tensor, images: Tensor) -> Tensor:
        logits = torch.einsum("knd,kcd->knc", features, self.prototypes) / self.temperature
        weighted = F.log_softmax(logits, dim=2) + self.weights.log()[:, None, None]
        return torch.logsumexp(weighted, dim=0)


@FUSIONS.register("softmax-mean")
@dataclass(frozen=True)
class SoftmaxMean(Fusion):
    """Size-weighted mean of the clients' own class probabilities."""

    score_temperature = 0.5
    mixes = True
    reads = PROTOTYPES
    temperature: float = option(1.0, "temperature of the clients' softmax", above=0)

    def head(self, uploads: Sequence[Upload], encoders: Sequence[Encoder], view: ServerView) -> Head:
        prototypes = side_by_side([upload.prototypes for upload in uploads])
        return SoftmaxMeanHead(size_weights(uploads), prototypes, self.temperature)


def mean_weights(uploads: Sequence[Upload]) -> Tensors:
    """sum_k n_k W_k / sum_k n_k, of parameters and buffers."""
    shares = size_weights(uploads)

    def mean(name: str) -> Tensor:
        values = torch.stack([upload.weights[name] for upload in uploads])
        return torch.einsum("k,k...->...", shares, values.float()).to(values.dtype)

    return {name: mean(name) for name in uploads[0].weights}


@FUSIONS.register("parameter-mean")
@dataclass(frozen=True)
class ParameterMean(Fusion):
    """Size-weighted mean of parameters and buffers: one model. Source: FedAvg, McMahan et al., 2017."""

    reads = frozenset({"parameters"})

    def encoders(self, uploads: Sequence[Upload]) -> list[Encoder]:
        return [Encoder(uploads[0].network, mean_weights(uploads))]

    def head(self, uploads: Sequence[Upload], encoders: Sequence[Encoder], view: ServerView) -> Head:
        prototypes = encoders[0].weights["prototypes"]
        return PrototypeHead(prototypes.new_ones(1), prototypes)
