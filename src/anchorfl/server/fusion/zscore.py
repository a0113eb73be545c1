"""The fusions that standardise every client's features before they are added."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from anchorfl.models import Encoder
from anchorfl.registry import FUSIONS
from anchorfl.server.fusion.averages import mean_prototypes
from anchorfl.server.fusion.base import PROTOTYPES, Fusion, Head, ServerView
from anchorfl.tensors import Tensors
from anchorfl.wire import Upload

LEAST_SHARE = 0.1
"""Of the mean deviation: smaller ones count as that."""


class StandardisedHead(Head):
    """Scores = cos(sum_k w_k (f_k - mean_k) / deviation_k, direction_c)."""

    weights: Tensor
    directions: Tensor

    def __init__(self, weights: Tensor, directions: Tensor) -> None:
        super().__init__()
        self.register_buffer("weights", weights)
        self.register_buffer("directions", F.normalize(directions, dim=1))

    def forward(self, features: Tensor, images: Tensor) -> Tensor:
        mean, deviation = self.statistics(features)
        deviation = torch.maximum(deviation, LEAST_SHARE * deviation.mean()).clamp(min=1e-12)
        standard = (features - mean) / deviation
        fused = torch.einsum("k,knd->nd", self.weights, standard)
        return F.normalize(fused, dim=1) @ self.directions.T

    @abstractmethod
    def statistics(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """Means and deviations by client and feature, K x 1 x d."""


class ClientStandardisedHead(StandardisedHead):
    mean: Tensor
    deviation: Tensor

    def __init__(self, weights: Tensor, directions: Tensor, moments: Sequence[Tensors]) -> None:
        super().__init__(weights, directions)
        mean = torch.stack([own["mean"] for own in moments])[:, None]
        square = torch.stack([own["square"] for own in moments])[:, None]
        self.register_buffer("mean", mean)
        self.register_buffer("deviation", (square - mean.square()).clamp(min=0).sqrt())

    def statistics(self, features: Tensor) -> tuple[Tensor, Tensor]:
        return self.mean, self.deviation


class BatchStandardisedHead(StandardisedHead):
    def statistics(self, features: Tensor) -> tuple[Tensor, Tensor]:
        return features.mean(dim=1, keepdim=True), features.std(dim=1, correction=0, keepdim=True)


def root_weights(uploads: Sequence[Upload], device: torch.device) -> Tensor:
    """sqrt(n_k), over their sum."""
    roots = torch.tensor([upload.samples for upload in uploads], dtype=torch.float32).sqrt()
    return (roots / roots.sum()).to(device)


def directions(uploads: Sequence[Upload], view: ServerView) -> Tensor:
    """The anchors that all share, or the mean of the prototypes where a method has none."""
    anchors = view.anchors()
    return mean_prototypes(uploads) if anchors is None else anchors


@FUSIONS.register("zscore")
@dataclass(frozen=True)
class ZScore(Fusion):
    """Features standardised by moments of the client's own data, weighted by sqrt(n_k), nearest anchor.

    Source: FedSRA, with statistics that every client sends along (over classes of `upload.min_count`
    samples or more; a client that has none is left out).
    """

    needs = ("feature_moments",)
    score_temperature = 0.1
    reads = PROTOTYPES

    def head(self, uploads: Sequence[Upload], encoders: Sequence[Encoder], view: ServerView) -> Head:
        moments = [upload.statistic("feature_moments") for upload in uploads]
        counted = torch.stack([own["square"].any() for own in moments]).to(view.device)
        weights = root_weights(uploads, view.device) * counted
        return ClientStandardisedHead(weights, directions(uploads, view), moments)


@FUSIONS.register("zscore-batch")
@dataclass(frozen=True)
class ZScoreBatch(Fusion):
    """As zscore, by moments of the images that are predicted together: transductive.

    A sample's scores depend on its neighbours, so a sample alone gets none worth having. Source:
    FedSRA's default, for comparison only.
    """

    transductive = True
    score_temperature = 0.08
    reads = PROTOTYPES

    def head(self, uploads: Sequence[Upload], encoders: Sequence[Encoder], view: ServerView) -> Head:
        return BatchStandardisedHead(root_weights(uploads, view.device), directions(uploads, view))
