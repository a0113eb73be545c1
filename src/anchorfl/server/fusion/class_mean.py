"""The fusions in which every class is scored by the clients that hold it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from anchorfl.models import Encoder
from anchorfl.options import option
from anchorfl.registry import FUSIONS
from anchorfl.server.fusion.base import PROTOTYPES, Fusion, Head, ServerView, side_by_side
from anchorfl.wire import Upload

LOWEST_COSINE = -1.0
HIGHEST_BORDER, COLLAPSED = 0.995, 0.9999
"""Where no cosine can be told from a border, whatever the image, a client scores 0."""


class OwnersHead(Head):
    """Scores: sum_k w_kc (1 - (1 - cos(f_k, m_kc)) / (1 - b_k)); with border b_k = 0, the cosines.

    A client whose border is 1 maps everything to one feature, and scores 0. A class that no upload
    describes gets the lowest score there is.
    """

    directions: Tensor
    offsets: Tensor
    described: Tensor

    def __init__(self, means: Tensor, weights: Tensor, borders: Tensor | None = None) -> None:
        super().__init__()
        borders = weights.new_zeros(len(weights)) if borders is None else borders
        units = 1 / (1 - borders.clamp(max=HIGHEST_BORDER))
        shares = weights / weights.sum(dim=0).clamp(min=1e-12)
        described = weights.sum(dim=0) > 0
        sees = (shares * (borders < COLLAPSED)[:, None]).to(shares)
        scaled = sees * units[:, None]
        lowest = 1 + (LOWEST_COSINE - 1) * units.max()
        offsets = torch.where(described, (sees - scaled).sum(dim=0), lowest)
        self.register_buffer("directions", F.normalize(means, dim=2) * scaled[:, :, None])
        self.register_buffer("offsets", offsets)
        self.register_buffer("described", described)

    def forward(self, features: Tensor, images: Tensor) -> Tensor:
        return torch.einsum("knd,kcd->nc", features, self.directions) + self.offsets


class Owners(NamedTuple):
    """Per client and class, K x C x d and K x C: what a class is scored by, and with which weight."""

    means: Tensor
    weights: Tensor


def owners(
    uploads: Sequence[Upload], q: float, device: torch.device, elsewhere: Tensor | None = None
) -> Owners:
    """Every client's class means, weighted by n_kc^q where its upload contains one.

    A class that some hold and no mean describes, because all have too few (`upload.min_count`), is
    scored by the prototypes of those who hold it; not where it is scored `elsewhere`.
    """
    means = side_by_side([upload.statistic("class_means")["mean"] for upload in uploads]).to(device)
    prototypes = side_by_side([upload.prototypes for upload in uploads]).to(device)
    counts = torch.stack([upload.class_counts for upload in uploads]).to(device)
    described = means.any(dim=2)
    nobody = ~described.any(dim=0)
    if elsewhere is not None:
        nobody = nobody & ~elsewhere
    weights = counts.float() ** q * torch.where(nobody, counts > 0, described)
    return Owners(torch.where(nobody[:, None], prototypes, means), weights)


def borders(own: Owners, encoders: Sequence[Encoder], view: ServerView, share: float) -> Tensor:
    """Per client, the cosine to its nearest class that a share of synthetic pictures stays under.

    They are of no class. An encoder of a single class maps everything to one feature, and has
    its border next to 1.
    """
    if not share:
        return own.weights.new_zeros(len(own.weights))
    directions = F.normalize(own.means, dim=2)
    nearest = []
    for encoder, client, weights in zip(encoders, directions, own.weights, strict=True):
        features = view.encode(encoder, view.pictures()).float()
        cosines = (features @ client[:, : features.shape[1]].T)[:, weights > 0]
        reached = cosines.amax(dim=1) if cosines.shape[1] else cosines.new_zeros(len(cosines))
        nearest.append(reached.quantile(share))
    return torch.stack(nearest).clamp(0, 1)


@FUSIONS.register("class-mean")
@dataclass(frozen=True)
class ClassMean(Fusion):
    """How close an image is to the class means of the sites that hold the class; no prototype is read.

    sum_k w_kc (1 - (1 - cos(f_k, m_kc)) / (1 - b_k)), m_kc client k's mean normalised feature of class
    c, and w_kc its n_kc^q over the sum of all clients'. b_k is the cosine that 99 of 100 synthetic
    pictures stay under: a feature at the mean itself scores 1, one no nearer than they are 0. Classes
    under `upload.min_count` samples are left out by the client.
    """

    needs = ("class_means",)
    mixes = True
    score_temperature = 0.4
    q: float = option(0.5, "exponent of a client's class count", at_least=0)
    border: float = option(
        0.99, "share of synthetic pictures under the border; 0: plain cosines", at_least=0, below=1
    )

    def head(self, uploads: Sequence[Upload], encoders: Sequence[Encoder], view: ServerView) -> Head:
        own = owners(uploads, self.q, view.device)
        return OwnersHead(*own, borders(own, encoders, view, self.border))


@FUSIONS.register("class-weighted")
@dataclass(frozen=True)
class ClassWeighted(Fusion):
    """How close an image is to the prototypes of the sites that hold the class; no mean is uploaded.

    sum_k w_kc cos(f_k, p_kc), p_kc client k's prototype of class c, w_kc ~ n_kc^q over the clients
    that hold the class.
    """

    mixes = True
    score_temperature = 0.04
    reads = PROTOTYPES
    q: float = option(1.0, "exponent of a client's class count", at_least=0)

    def head(self, uploads: Sequence[Upload], encoders: Sequence[Encoder], view: ServerView) -> Head:
        prototypes = side_by_side([upload.prototypes for upload in uploads])
        counts = torch.stack([upload.class_counts for upload in uploads]).to(view.device)
        return OwnersHead(prototypes, counts.float() ** self.q * (counts > 0))
