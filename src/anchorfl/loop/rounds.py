"""The loop, written once: every site trains a round, then it may be evaluated, and is written."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from anchorfl.compute import device_name, using_threads
from anchorfl.data import Dataset, Partition
from anchorfl.diagnose import REACTIONS, Guard
from anchorfl.errors import UserError
from anchorfl.events import Evaluating, Event, Listener, RoundEnded, RunStarted, Warned, as_record
from anchorfl.loop.checkpoints import Checkpoint, Checkpoints
from anchorfl.loop.engine import Engine
from anchorfl.measures import Evaluation
from anchorfl.messages import Task
from anchorfl.methods import METHODS
from anchorfl.prepare import Setup
from anchorfl.runs import RunFolder


@dataclass(frozen=True)
class Outcome:
    """An evaluation point; `evaluation` is None where nothing can predict yet."""

    evaluation: Evaluation | None
    validation: Evaluation | None = None
    upload_seconds: float = 0.0


class Rounds(ABC):
    """A run, prepared and checked before the first step: a simulated federation, or one site.

    `sites` are the sites' names, where they are called by more than a number; `encoder` is what they
    train; `now` is the task that is going, which the first one, `task`, becomes in a method of many
    rounds.
    """

    def __init__(
        self,
        setup: Setup,
        dataset: Dataset,
        partition: Partition,
        device: torch.device,
        sites: Sequence[str] = (),
    ) -> None:
        self.setup, self.config = setup, setup.config
        self.task: Task = setup.task
        self.now = self.task
        self.dataset, self.partition, self.device = dataset, partition, device
        self.sites = sites
        self.encoder = ",".join(setup.encoders)
        self.listeners: list[Listener] = []
        self.checkpoints: Checkpoints | None = None
        self.begun: Checkpoint | None = None
        self.guard = Guard(self.config.align)
        self.stopping = False
        self.slow = ""

    @abstractmethod
    def open(self) -> Engine:
        """The sites, as the first task starts them."""

    @abstractmethod
    def evaluate(self, engine: Engine) -> Outcome:
        """After a round."""

    def step(self, engine: Engine, outcome: Outcome | None) -> None:
        """What goes down again after a round, in a method of many; nothing, unless a server says so."""
        return

    @abstractmethod
    def warnings(self) -> Iterator[Warned]:
        """What a user should know of the data before the first round."""

    def close(self, engine: Engine) -> None:
        engine.close()

    @abstractmethod
    def finish(self, folder: RunFolder, outcome: Outcome) -> dict[str, Any]:
        """Write what the run leaves beside its records; more for its summary."""

    @property
    def begun_at(self) -> int:
        return self.begun.position if self.begun else 0

    @property
    def names(self) -> list[str]:
        return list(self.sites) or [str(number) for number in range(len(self.partition.clients))]

    def go_on_from(self, begun: Checkpoint) -> None:
        """Resume a run that was cut off; what its records hold is not said again."""
        if begun.partition != self.partition.hash:
            raise UserError(
                "the data or the draw are not those that this run began with; --restart begins anew"
            )
        self.begun = begun
        for record in begun.records:
            if record["event"] == "client" and self.config.align.guard != "off":
                self.guard.look(record)
            if record["event"] == "warning" and record["kind"] == "slow":
                self.slow = record["message"]

    def emit(self, event: Event) -> None:
        for listener in self.listeners:
            listener(event)

    def run(self, folder: str) -> Outcome:
        """On the run's own number of threads."""
        with using_threads(self.config.general.threads or torch.get_num_threads()):
            self.announce(folder)
            return self.train(self.open())

    def train(self, engine: Engine) -> Outcome:
        """All rounds, from where a checkpoint was taken."""
        if self.begun is not None:
            if self.now.round:
                engine.send(self.now)
            engine.restore(self.begun.sites)
        last, outcome = self.config.train.rounds - 1, None
        for number in range(self.begun_at, self.config.train.rounds):
            started = time.perf_counter()
            samples = self.train_round(engine, number)
            self.warn_if_slow(engine)
            trained = time.perf_counter()
            outcome = None
            if self.config.train.evaluates(number) or self.stopping:
                self.emit(Evaluating(number))
                outcome = self.evaluate(engine)
            self.emit(self.round_ended(number, samples, started, trained, outcome))
            if self.stopping:
                break
            if number < last:
                self.step(engine, outcome)
            if self.checkpoints is not None and self.keeps(number):
                self.checkpoints.save(self.checkpoint(number + 1, engine))
        self.close(engine)
        assert outcome is not None  # the last round is always evaluated
        return outcome

    def checkpoint(self, position: int, engine: Engine) -> Checkpoint:
        return Checkpoint.take(position, self.partition.hash, self.now, engine.checkpoint())

    def keeps(self, number: int) -> bool:
        """Whether a round ends in a checkpoint: never the last, after which the run is complete."""
        every = self.config.train.checkpoint_every or 1
        return (number + 1) % every == 0 and number + 1 < self.config.train.rounds

    def warn_if_slow(self, engine: Engine) -> None:
        """State once why a GPU is slower than it could be."""
        if not self.slow:
            self.slow = engine.trouble() or ""
            if self.slow:
                self.emit(Warned("slow", self.slow))

    def train_round(self, engine: Engine, number: int) -> int:
        """A round of all sites; returns how many samples they went through."""
        diverged = []
        for event in engine.train(number, self.emit):
            self.emit(event)
            diverged.append(event.diverged)
            if event.diverged:
                message = f"client {event.client} diverged in round {number}: it stops, and keeps the"
                message += " weights that it had before; lower train.lr"
                self.emit(Warned("non-finite", message, client=event.client, round=number))
            self.watch(as_record(event))
        if number == 0 and diverged and all(diverged):
            raise UserError(
                f"method {self.config.method}: the loss is not finite, or far too large, in the first"
                " round of every client that trains; mend the method's loss, or lower train.lr"
            )
        if not METHODS.get(self.config.method).trains:
            return 0
        return sum(map(len, self.partition.clients)) * self.config.train.local_epochs

    def watch(self, record: dict[str, Any]) -> None:
        """Warn that a client's lambda is running away, and end the run where that is wanted."""
        reaction = self.config.align.guard
        alarm = None if reaction == "off" else self.guard.look(record)
        if alarm is None:
            return
        self.stopping = reaction == "stop"
        message = f"{alarm.message}; {REACTIONS[reaction]}"
        self.emit(Warned("guard", message, client=alarm.client, round=alarm.round))

    def round_ended(
        self, number: int, samples: int, started: float, trained: float, outcome: Outcome | None
    ) -> RoundEnded:
        ended, found = time.perf_counter(), outcome or Outcome(None)
        return RoundEnded(
            round=number,
            accuracy=found.evaluation.accuracy() if found.evaluation else None,
            validation_accuracy=found.validation.accuracy() if found.validation else None,
            local_accuracy=found.evaluation.local_accuracy(self.names) if found.evaluation else None,
            samples=samples,
            train_seconds=trained - started,
            upload_seconds=found.upload_seconds,
            evaluate_seconds=ended - trained - found.upload_seconds,
            seconds=ended - started,
            samples_per_second=samples / (trained - started),
        )

    def announce(self, folder: str) -> None:
        trains = METHODS.get(self.config.method).trains
        self.emit(
            RunStarted(
                method=self.config.method,
                dataset=self.dataset.name,
                rounds=self.config.train.rounds,
                local_epochs=self.config.train.local_epochs,
                encoder=self.encoder if trains else "",
                batch=self.config.train.batch if trains else 0,
                samples=[len(own) for own in self.partition.clients],
                device=device_name(self.device),
                threads=self.config.general.threads or torch.get_num_threads(),
                folder=folder,
                begun=self.begun_at,
            )
        )
        if self.begun is None:
            for warning in self.warnings():
                self.emit(warning)
