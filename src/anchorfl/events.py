"""Events are values; the file writer, the progress display and the trackers listen."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ClassVar, TextIO


@dataclass(frozen=True)
class RunStarted:
    """Before the first round; `samples` are the clients' sizes, 0 for one that holds nothing."""

    method: str
    dataset: str
    rounds: int
    local_epochs: int
    samples: list[int]
    device: str
    folder: str


@dataclass(frozen=True)
class Preparing:
    """The server works before the first round; for progress displays, never written down."""

    what: str
    done: int
    total: int


@dataclass(frozen=True)
class BatchTrained:
    """A client went through some samples; for progress displays, never written down."""

    round: int
    client: int
    samples: int


@dataclass(frozen=True)
class Evaluating:
    """All clients of a round are trained and the server looks at them; never written down."""

    round: int


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


@dataclass(frozen=True)
class RoundEnded:
    """All clients trained, and in some rounds were evaluated: the unit in which a run is written."""

    kind: ClassVar[str] = "round"
    round: int
    accuracy: dict[str, float] | None
    validation_accuracy: dict[str, float] | None
    local_accuracy: list[float | None] | None
    samples: int
    train_seconds: float
    upload_seconds: float
    evaluate_seconds: float
    seconds: float
    samples_per_second: float


@dataclass(frozen=True)
class Warned:
    """Something a user should know; `kind` names it for programs."""

    kind: ClassVar[str] = "warning"
    about: str
    message: str
    client: int | None = None
    round: int | None = None


@dataclass(frozen=True)
class RunEnded:
    summary: dict[str, Any]


Event = (
    RunStarted | Preparing | BatchTrained | Evaluating | ClientRound | RoundEnded | Warned | RunEnded
)
Listener = Callable[[Event], None]


def as_record(event: ClientRound | RoundEnded | Warned) -> dict[str, Any]:
    """The object that metrics.jsonl holds: plain JSON, null where a number is not finite."""
    record = asdict(event)
    record |= record.pop("readings", {})
    if isinstance(event, Warned):
        record["kind"] = record.pop("about")
    return {"event": event.kind, **{key: finite(value) for key, value in record.items()}}


def finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [finite(item) for item in value]
    return value


class MetricsWriter:
    """Appends to metrics.jsonl; a round's lines reach the disk together, when it is complete.

    Of a round that a run did not finish only the warnings are kept.
    """

    def __init__(self, path: Path) -> None:
        self._file: TextIO = path.open("a")
        self._waiting: list[ClientRound | RoundEnded | Warned] = []

    def __call__(self, event: Event) -> None:
        if isinstance(event, ClientRound | RoundEnded | Warned):
            self._waiting.append(event)
        if isinstance(event, RoundEnded):
            self._write()
        elif isinstance(event, RunEnded):
            self._waiting = [each for each in self._waiting if isinstance(each, Warned)]
            self._write()
            self._file.close()

    def _write(self) -> None:
        for event in self._waiting:
            self._file.write(json.dumps(as_record(event), allow_nan=False) + "\n")
        self._file.flush()
        self._waiting.clear()
