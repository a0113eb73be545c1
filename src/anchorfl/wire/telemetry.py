"""What a client reports of a round's training beside its upload: losses, lambda, norms."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar


@dataclass(frozen=True)
class ClientRound:
    """One client's round: losses, norms and clipping are sample-weighted means over its steps.

    Lambda and sigma are those at its end, lambda_stationary where the mean losses would lead them.
    `readings` is everything else that was measured; it stands beside the rest in the file.
    """

    kind: ClassVar[str] = "client"
    round: int
    client: int
    samples: int
    steps: int
    base_loss: float
    clip_factor: float
    anneal: float | None
    seconds: float
    align_loss: float | None = None
    lambda_raw: float | None = None
    lambda_effective: float | None = None
    lambda_stationary: float | None = None
    sigma_sq_local: float | None = None
    sigma_sq_align: float | None = None
    prototype_norm_seen: float | None = None
    prototype_norm_unseen: float | None = None
    readings: dict[str, float] = field(default_factory=dict)
