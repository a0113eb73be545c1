"""The fusions that average: features, probabilities, or parameters."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from anchorfl.fusion.base import FUSIONS, PROTOTYPES, Fusion, Head, ServerView, Uploads, side_by_side
from anchorfl.options import option
from anchorfl.randomness import generator
from anchorfl.tensors import Encoder, Encoders, Tensors


def size_weights(uploads: Uploads, power: float = 1.0) -> Tensor:
    """n_k^power over their sum, on the uploads' device."""
    sizes = torch.tensor([upload.samples for upload in uploads], dtype=torch.float32) ** power
    return (sizes / sizes.sum()).to(uploads[0].prototypes.device)


class PrototypeHead(Head):
    """Scores = normalise(sum_k w_k f_k) P', with fixed client weights w and one matrix P."""

    weights: Tensor
    prototypes: Tensor

    def forward(self, features: Tensor, images: Tensor) -> Tensor:
        fused = torch.einsum("k,knd->nd", self.weights, features)
        return F.normalize(fused, dim=1) @ self.prototypes.T


def mean_prototypes(uploads: Uploads) -> Tensor:
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

    def head(self, uploads: Uploads, encoders: Encoders, view: ServerView) -> Head:
        return RawPrototypeHead(weights=size_weights(uploads), prototypes=mean_prototypes(uploads))


@FUSIONS.register("normalised-feature-mean")
@dataclass(frozen=True)
class NormalisedFeatureMean(Fusion):
    """As feature-mean, each client's features normalised before they are added."""

    reads = PROTOTYPES

    def head(self, uploads: Uploads, encoders: Encoders, view: ServerView) -> Head:
        return PrototypeHead(weights=size_weights(uploads), prototypes=mean_prototypes(uploads))


class NoiseWeightedHead(Head):
    """As PrototypeHead, but each sample weighs a client by 1 - cos(f_k(x), f_k(noise))."""

    noise: Tensor
    prototypes: Tensor

    def forward(self, features: Tensor, images: Tensor) -> Tensor:
        distance = 1 - torch.einsum("knd,kd->kn", features, self.noise)
        fused = torch.einsum("kn,knd->nd", distance, features)
        return F.normalize(fused, dim=1) @ self.prototypes.T


@FUSIONS.register("iffi")
@dataclass(frozen=True)
class NoiseWeighted(Fusion):
    """Each client's feature weighted by its cosine distance to its own feature of one noise image.

    The noise image is uniform in 0..1 and fixed by the seed: an encoder to which a sample looks like
    noise has little to add. Source: FAFI (ICML 2025), informative feature fusion.
    """

    reads = PROTOTYPES

    def head(self, uploads: Uploads, encoders: Encoders, view: ServerView) -> Head:
        image = torch.rand(1, *view.shape, generator=generator(view.seed, "noise"))
        image = image.to(view.device)
        noise = torch.cat([view.encode(weights, image) for weights in encoders])
        return NoiseWeightedHead(noise=noise, prototypes=mean_prototypes(uploads))


class SoftmaxMeanHead(Head):
    """Scores = log sum_k w_k softmax(f_k P_k' / t)."""

    weights: Tensor
    prototypes: Tensor

    def __init__(self, temperature: float, **tensors: Tensor) -> None:
        super().__init__(**tensors)
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

    def head(self, uploads: Uploads, encoders: Encoders, view: ServerView) -> Head:
        prototypes = side_by_side([upload.prototypes for upload in uploads])
        return SoftmaxMeanHead(self.temperature, weights=size_weights(uploads), prototypes=prototypes)


def mean_weights(uploads: Uploads) -> Tensors:
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

    def encoders(self, uploads: Uploads) -> list[Encoder]:
        return [Encoder(uploads[0].network, mean_weights(uploads))]

    def head(self, uploads: Uploads, encoders: Encoders, view: ServerView) -> Head:
        prototypes = encoders[0].weights["prototypes"]
        return PrototypeHead(weights=prototypes.new_ones(1), prototypes=prototypes)
