"""Events are values; the file writer, the progress display and the trackers listen."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, BinaryIO, ClassVar

from anchorfl.runs import Run
from anchorfl.wire import ClientRound


@dataclass(frozen=True)
class RunStarted:
    """Before the first round; `samples` are the clients' sizes, 0 for one that holds nothing.

    `begun` rounds were done before the run was cut off, and are not done again.
    """

    method: str
    dataset: str
    rounds: int
    local_epochs: int
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
    """All clients of a round are trained and the server looks at them; never written."""

    round: int


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
    """All that the run leaves is written; `run` is what its folder holds."""

    run: Run


Event = (
    RunStarted
    | Preparing
    | BatchTrained
    | Evaluating
    | ClientRound
    | EpochEnded
    | RoundEnded
    | Warned
    | RunEnded
)
Listener = Callable[[Event], None]
ListenerFactory = Callable[[Path, Mapping[str, object]], Listener]
"""(run folder, settings) -> what listens to the run."""


Written = ClientRound | EpochEnded | RoundEnded | Warned
"""The events that metrics.jsonl holds."""


def as_record(event: Written) -> dict[str, Any]:
    """The object that metrics.jsonl holds: plain JSON, null where a number is not finite."""
    record = asdict(event)
    record |= record.pop("readings", {})
    if isinstance(event, Warned):
        record["kind"] = record.pop("about")
    return {"event": event.kind, **{key: finite(value) for key, value in record.items()}}


def round_from_record(record: Mapping[str, Any]) -> RoundEnded:
    """The opposite of `as_record`, of a round."""
    return RoundEnded(**{item.name: record[item.name] for item in fields(RoundEnded)})


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

    Of a round that a run did not finish only the warnings are kept. `keep` bytes of what stands there
    already are gone on from.
    """

    def __init__(self, path: Path, keep: int = 0) -> None:
        self._file: BinaryIO = path.open("r+b" if path.exists() else "w+b")
        self._file.truncate(keep)
        self._digest = hashlib.sha256(self._file.read())
        self._waiting: list[Written] = []

    def __call__(self, event: Event) -> None:
        if isinstance(event, Written):
            self._waiting.append(event)
        if isinstance(event, RoundEnded):
            self._write()

    def written(self) -> tuple[int, str]:
        """How many bytes stand on the disk, and their SHA-256."""
        os.fsync(self._file.fileno())
        return self._file.tell(), self._digest.hexdigest()

    def close(self) -> None:
        if self._file.closed:
            return
        self._waiting = [each for each in self._waiting if isinstance(each, Warned)]
        self._write()
        self._file.close()

    def _write(self) -> None:
        for event in self._waiting:
            line = json.dumps(as_record(event), allow_nan=False).encode() + b"\n"
            self._file.write(line)
            self._digest.update(line)
        self._file.flush()
        self._waiting.clear()
