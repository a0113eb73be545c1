"""The fusions in which every class is scored by the clients that hold it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from anchorfl.fusion.base import FUSIONS, PROTOTYPES, Fusion, Head, ServerView, Uploads, side_by_side
from anchorfl.options import option
from anchorfl.tensors import Encoders

LOWEST_COSINE = -1.0
HIGHEST_BORDER = 0.995
"""A unit of cosines is not smaller than from here to 1."""
FARTHEST, COLLAPSED = 0.01, 0.97
"""An encoder has collapsed where only so few synthetic pictures have a cosine below this."""


class OwnersHead(Head):
    """Scores: sum_k w_kc (1 - (1 - cos(f_k, m_kc)) / (1 - b_k)); with border b_k = 0, the cosines.

    A class that nobody describes gets the lowest score there is. All scores are in units of `worth`.
    """

    directions: Tensor
    offsets: Tensor
    described: Tensor

    def __init__(
        self, means: Tensor, weights: Tensor, borders: Tensor | None = None, worth: float = 1.0
    ) -> None:
        borders = weights.new_zeros(len(weights)) if borders is None else borders
        units = 1 / (1 - borders.clamp(max=HIGHEST_BORDER))
        shares = weights / weights.sum(dim=0).clamp(min=1e-12)
        described = weights.sum(dim=0) > 0
        scaled = shares * units[:, None]
        lowest = 1 + (LOWEST_COSINE - 1) * units.max()
        offsets = torch.where(described, (shares - scaled).sum(dim=0), lowest)
        directions = worth * F.normalize(means, dim=2) * scaled[:, :, None]
        super().__init__(directions=directions, offsets=worth * offsets, described=described)

    def forward(self, features: Tensor, images: Tensor) -> Tensor:
        return torch.einsum("knd,kcd->nc", features, self.directions) + self.offsets


class Owners(NamedTuple):
    """Per client and class, K x C x d and K x C: what a class is scored by, and with which weight."""

    means: Tensor
    weights: Tensor


def owners(uploads: Uploads, q: float, device: torch.device, elsewhere: Tensor | None = None) -> Owners:
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


def nearest_class(own: Owners, encoders: Encoders, view: ServerView) -> Tensor:
    """Per client and synthetic picture, the cosine to the nearest of its classes; they are of none."""
    directions = F.normalize(own.means, dim=2)
    nearest = []
    for encoder, client, weights in zip(encoders, directions, own.weights, strict=True):
        features = view.encode(encoder, view.pictures()).float()
        cosines = (features @ client[:, : features.shape[1]].T)[:, weights > 0]
        nearest.append(cosines.amax(dim=1) if cosines.shape[1] else cosines.new_zeros(len(cosines)))
    return torch.stack(nearest)


def without_collapsed(own: Owners, nearest: Tensor) -> Owners:
    """Clients whose encoder maps every image next to one feature do not count, unless all do."""
    sees = nearest.quantile(FARTHEST, dim=1) < COLLAPSED
    seen = own.weights * sees[:, None]
    return Owners(own.means, seen) if seen.any() else own


@FUSIONS.register("class-mean")
@dataclass(frozen=True)
class ClassMean(Fusion):
    """How close an image is to the class means of the sites that hold the class; no prototype is read.

    sum_k w_kc (1 - (1 - cos(f_k, m_kc)) / (1 - b_k)), m_kc client k's mean normalised feature of class
    c, and w_kc its n_kc^q over the sum of all clients'. b_k is the cosine that 99 of 100 synthetic
    pictures stay under: a feature at the mean itself scores 1, one no nearer than they are 0. Classes
    under `upload.min_count` samples are left out by the client. An encoder that has collapsed, with 99
    of 100 synthetic pictures at a cosine above 0.97, as one of a single class may, is left out too.
    """

    needs = ("class_means",)
    mixes = True
    score_temperature = 0.4
    q: float = option(0.5, "exponent of a client's class count", at_least=0)
    border: float = option(
        0.99,
        "share of synthetic pictures under the border; 0: plain cosines of all",
        at_least=0,
        below=1,
    )

    def head(self, uploads: Uploads, encoders: Encoders, view: ServerView) -> Head:
        own = owners(uploads, self.q, view.device)
        if not self.border:
            return OwnersHead(*own)
        nearest = nearest_class(own, encoders, view)
        borders = nearest.quantile(self.border, dim=1).clamp(0, 1)
        return OwnersHead(*without_collapsed(own, nearest), borders)


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

    def head(self, uploads: Uploads, encoders: Encoders, view: ServerView) -> Head:
        prototypes = side_by_side([upload.prototypes for upload in uploads])
        counts = torch.stack([upload.class_counts for upload in uploads]).to(view.device)
        return OwnersHead(prototypes, counts.float() ** self.q * (counts > 0))
