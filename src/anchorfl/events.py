"""Events are values: what happens in a run, for files, displays, guards and trackers to listen to."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar

from anchorfl.errors import UserError
from anchorfl.registry import Registry


@dataclass(frozen=True)
class RunStarted:
    """Before the first round; `samples` are the clients' sizes, 0 for one that holds nothing.

    `encoder` is what trains, in steps of `batch` samples; "" and 0 where nothing does. `begun` rounds
    were done before the run was cut off, and are not done again.
    """

    method: str
    dataset: str
    rounds: int
    local_epochs: int
    encoder: str
    batch: int
    samples: list[int]
    device: str
    threads: int
    folder: str
    begun: int = 0


@dataclass(frozen=True)
class Preparing:
    """The server works before the first round; for progress displays, never written."""

    what: str
    done: int
    total: int


@dataclass(frozen=True)
class BatchTrained:
    """A client went through some samples; for progress displays, never written."""

    round: int
    client: int
    samples: int


@dataclass(frozen=True)
class Evaluating:
    """All clients of a round are trained and evaluated next; never written."""

    round: int


@dataclass(frozen=True)
class ClientRound:
    """One client's round: losses, norms and clipping are sample-weighted means over its steps.

    Lambda and sigma are those at its end, lambda_stationary where the mean losses would lead them.
    `readings` is everything else that was measured; it stands beside the rest in a record.
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

    @property
    def diverged(self) -> bool:
        return bool(self.readings.get("diverged"))

    @staticmethod
    def from_record(record: Any) -> ClientRound:
        """The opposite of `as_record`: numbers only; UserError for anything else."""
        known = {item.name for item in fields(ClientRound)} - {"readings"}
        try:
            numbers: dict[str, Any] = {
                str(name): None if value is None else value + 0
                for name, value in record.items()
                if name != "event"
            }
            if not all(type(numbers[name]) is int for name in ("round", "client", "samples", "steps")):
                raise ValueError("no whole number")
            readings = {
                name: math.nan if value is None else float(value)
                for name, value in numbers.items()
                if name not in known
            }
            return ClientRound(**{name: numbers[name] for name in known}, readings=readings)
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError):
            raise UserError("this is not a valid report of a round") from None


@dataclass(frozen=True)
class EpochEnded:
    """One client alone after a local epoch, by its prototypes, and the losses of the epoch's steps."""

    kind: ClassVar[str] = "epoch"
    round: int
    local_epoch: int
    client: int
    train_accuracy: float
    test_accuracy: float
    base_losses: list[float]
    align_losses: list[float]


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

    @staticmethod
    def from_record(record: Mapping[str, Any]) -> RoundEnded:
        return RoundEnded(**{item.name: record[item.name] for item in fields(RoundEnded)})


@dataclass(frozen=True)
class Warned:
    """Something a user should know; `about` names it for programs."""

    kind: ClassVar[str] = "warning"
    about: str
    message: str
    client: int | None = None
    round: int | None = None


@dataclass(frozen=True)
class RunEnded:
    """All that the run leaves is written in its folder, however it ended."""

    folder: Path
    status: str


Written = ClientRound | EpochEnded | RoundEnded | Warned
"""The events that metrics.jsonl holds."""
Event = RunStarted | Preparing | BatchTrained | Evaluating | Written | RunEnded
Listener = Callable[[Event], None]
ListenerFactory = Callable[[Path, Mapping[str, object]], Listener]
"""(run folder, settings) -> what listens to the run."""
LISTENERS: Registry[ListenerFactory] = Registry("listener", "anchorfl.report.listener")
TRACKERS: Registry[ListenerFactory] = Registry("tracker", "anchorfl.report.trackers")


def as_record(event: Written) -> dict[str, Any]:
    """A line of metrics.jsonl: plain JSON, null where a number is not finite."""
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
