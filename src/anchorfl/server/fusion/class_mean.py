"""The fusions in which every class is scored by the clients that hold it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from anchorfl.models import Encoder
from anchorfl.options import option
from anchorfl.registry import FUSIONS
from anchorfl.server.fusion.base import PROTOTYPES, Fusion, Head, ServerView, side_by_side
from anchorfl.wire import Upload

LOWEST_COSINE = -1.0


class OwnersHead(Head):
    """Scores: sum_k w_kc cos(f_k, m_kc); a class that no upload describes gets the lowest cosine."""

    directions: Tensor
    missing: Tensor

    def __init__(self, means: Tensor, weights: Tensor) -> None:
        super().__init__()
        shares = weights / weights.sum(dim=0).clamp(min=1e-12)
        self.register_buffer("directions", F.normalize(means, dim=2) * shares[:, :, None])
        self.register_buffer("missing", LOWEST_COSINE * (weights.sum(dim=0) == 0).float())

    def forward(self, features: Tensor, images: Tensor) -> Tensor:
        return torch.einsum("knd,kcd->nc", features, self.directions) + self.missing


def owners_head(
    uploads: Sequence[Upload], q: float, device: torch.device, elsewhere: Tensor | None = None
) -> OwnersHead:
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
    return OwnersHead(torch.where(nobody[:, None], prototypes, means), weights)


@FUSIONS.register("class-mean")
@dataclass(frozen=True)
class ClassMean(Fusion):
    """Per class, cosines to the clients' class means, weighted by n_kc^q: no prototype is read.

    sum_k w_kc cos(f_k, m_kc), m_kc client k's mean normalised feature of class c, and w_kc its n_kc^q
    over the sum of all clients'. Classes under `upload.min_count` samples are left out by the client.
    """

    needs = ("class_means",)
    mixes = True
    score_temperature = 0.02
    q: float = option(0.5, "exponent of a client's class count", at_least=0)

    def head(self, uploads: Sequence[Upload], encoders: Sequence[Encoder], view: ServerView) -> Head:
        return owners_head(uploads, self.q, view.device)


@FUSIONS.register("class-weighted")
@dataclass(frozen=True)
class ClassWeighted(Fusion):
    """Per class, cosines to the clients' own prototypes, weighted by n_kc^q: no mean is uploaded.

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
