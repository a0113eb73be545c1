"""What a client reports of a round's training beside its upload: losses, lambda, norms."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, fields
from typing import Any, ClassVar

from anchorfl.errors import UserError


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

    def to_bytes(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    @staticmethod
    def from_bytes(data: bytes) -> ClientRound:
        """Numbers only; nothing else is taken from the bytes."""
        try:
            return ClientRound.from_record(json.loads(data))
        except (ValueError, RecursionError):
            raise UserError("these bytes are not a valid report of a round") from None

    @staticmethod
    def from_record(content: Any) -> ClientRound:
        try:
            known = {item.name: content[item.name] for item in fields(ClientRound)}
            readings = {str(name): float(value) for name, value in known.pop("readings").items()}
            numbers: dict[str, Any] = {
                name: None if value is None else value + 0 for name, value in known.items()
            }
            whole = (numbers[name] for name in ("round", "client", "samples", "steps"))
            if not all(type(value) is int for value in whole) or {*known, "event"} & readings.keys():
                raise ValueError("names")
            return ClientRound(**numbers, readings=readings)
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError):
            raise UserError("these bytes are not a valid report of a round") from None
