"""The fusions that standardise every client's features before they are added."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from anchorfl.fusion.averages import mean_prototypes, size_weights
from anchorfl.fusion.base import FUSIONS, PROTOTYPES, Fusion, Head, ServerView, Uploads
from anchorfl.tensors import Encoders

LEAST_SHARE = 0.1
"""Of the mean deviation: smaller ones count as that."""


class StandardisedHead(Head):
    """Scores = cos(sum_k w_k (f_k - mean_k) / deviation_k, direction_c)."""

    weights: Tensor
    directions: Tensor

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

    def statistics(self, features: Tensor) -> tuple[Tensor, Tensor]:
        return self.mean, self.deviation


class BatchStandardisedHead(StandardisedHead):
    def statistics(self, features: Tensor) -> tuple[Tensor, Tensor]:
        return features.mean(dim=1, keepdim=True), features.std(dim=1, correction=0, keepdim=True)


def directions(uploads: Uploads, view: ServerView) -> Tensor:
    """The anchors that all share, or the mean of the prototypes where a method has none; of norm 1."""
    anchors = view.anchors()
    return F.normalize(mean_prototypes(uploads) if anchors is None else anchors, dim=1)


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

    def head(self, uploads: Uploads, encoders: Encoders, view: ServerView) -> Head:
        moments = [upload.statistic("feature_moments") for upload in uploads]
        mean, square = (torch.stack([own[name] for own in moments]) for name in ("mean", "square"))
        return ClientStandardisedHead(
            weights=size_weights(uploads, 0.5).to(view.device) * square.any(dim=1).to(view.device),
            directions=directions(uploads, view),
            mean=mean[:, None],
            deviation=(square - mean.square()).clamp(min=0).sqrt()[:, None],
        )


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

    def head(self, uploads: Uploads, encoders: Encoders, view: ServerView) -> Head:
        weights = size_weights(uploads, 0.5).to(view.device)
        return BatchStandardisedHead(weights=weights, directions=directions(uploads, view))
