"""A run: data, partition, clients, and the rounds in which they train and are evaluated."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from anchorfl import teacher
from anchorfl.client import Client
from anchorfl.config import Config
from anchorfl.costs import Cost, costs_of
from anchorfl.data.dataset import Dataset, ImageStore, load_dataset
from anchorfl.data.partition import Partition, draw_partition
from anchorfl.devices import choose_device, device_name, synchronise, working_precision
from anchorfl.diagnose.guard import Guard
from anchorfl.errors import UserError
from anchorfl.evaluation import Evaluation, Fused, evaluate, fuse
from anchorfl.events import (
    BatchTrained,
    ClientRound,
    Evaluating,
    Event,
    Listener,
    Preparing,
    RoundEnded,
    RunStarted,
    Warned,
    as_record,
)
from anchorfl.methods import METHODS
from anchorfl.statements import SECOND_STATEMENTS, STATEMENTS
from anchorfl.task import Task
from anchorfl.training import Trainer
from anchorfl.upload import Upload

REACTIONS = {
    "warn": "align.guard=stop ends such a run, cap holds lambda, v12-gamma bounds it",
    "stop": "the run stops after this round (align.guard=stop)",
    "cap": "its effective lambda is held at 10 times B/A of round 0 (align.guard=cap)",
}


@dataclass(frozen=True)
class Outcome:
    """An evaluation point: what the clients uploaded, and how it did; costs only at the end."""

    uploads: list[Upload]
    fused: dict[str, Fused]
    evaluation: Evaluation
    validation: Evaluation | None
    upload_seconds: float
    costs: dict[str, Cost] = field(default_factory=dict)


@dataclass
class Federation:
    """Everything a run works with, prepared and checked before the first step."""

    config: Config
    dataset: Dataset
    partition: Partition
    task: Task
    device: torch.device
    listeners: list[Listener] = field(default_factory=list)
    stopping: bool = False
    slow: str = ""

    def __post_init__(self) -> None:
        self.guard = Guard(self.config.align)

    @staticmethod
    def prepare(config: Config) -> Federation:
        device = choose_device(config.general.device)
        precision = working_precision(config.train.precision, device)
        config = replace(config, train=replace(config.train, precision=precision))
        config = config.replace_general(device=str(device))
        dataset = load_dataset(config.data)
        partition = draw_partition(
            dataset.train.labels, config.partition, config.data.validation, dataset.name
        )
        if config.partition.kind == "file":
            total = len(dataset.train)
            data = replace(config.data, validation=len(partition.validation) / total)
            public, clients = len(partition.public) / total, len(partition.clients)
            drawn = replace(config.partition, clients=clients, public=public)
            config = replace(config, data=data, partition=drawn)
        unknown = config.needs - STATEMENTS.keys() - SECOND_STATEMENTS.keys()
        if unknown:
            raise UserError(f"a fusion needs {sorted(unknown)[0]}, which no client can say")
        if METHODS.get(config.method).anchors == "bank" and not len(partition.public):
            raise UserError(f"method {config.method} needs a public share, and this partition has none")
        return Federation(config, dataset, partition, Task.prepare(config, dataset.facts), device)

    def emit(self, event: Event) -> None:
        for listener in self.listeners:
            listener(event)

    def run(self, folder: str) -> Outcome:
        """The loop, written once: every client trains alone, then the server looks at all of them."""
        self._announce(folder)
        store = ImageStore(self.dataset.train, self.device)
        test = ImageStore(self.dataset.test, self.device)
        self._fill_bank(store)
        trainer = Trainer(self.task, self.device)
        classes = self.dataset.facts.classes
        clients = [
            Client(number, trainer, store, own, classes)
            for number, own in enumerate(self.partition.clients)
            if len(own)
        ]
        for number in range(self.config.train.rounds):
            started = time.perf_counter()
            samples = self._train(clients, number)
            self._tell_trouble(trainer)
            trained = time.perf_counter()
            outcome = None
            if self.config.train.evaluates(number) or self.stopping:
                self.emit(Evaluating(number))
                outcome = self._evaluate(trainer, clients, test, store)
            self.emit(self._round_ended(number, samples, started, trained, outcome))
            if self.stopping:
                break
        trainer.lanes.close()
        assert outcome is not None  # the last round is always evaluated
        costs = costs_of(trainer, self.config.fusion, outcome.fused, outcome.uploads, test)
        return replace(outcome, costs=costs)

    def _tell_trouble(self, trainer: Trainer) -> None:
        """Say once why a GPU is slower than it could be."""
        if not self.config.train.graphs or self.device.type != "cuda" or self.slow:
            return
        if trainer.lanes.trouble is not None:
            self.slow = f"steps cannot be replayed as CUDA graphs ({trainer.lanes.trouble})"
        elif not trainer.fused:
            self.slow = (
                "Triton builds no kernel here (a C compiler may be missing): torch's own are used"
            )
        if self.slow:
            self.emit(Warned("slow", self.slow))

    def _fill_bank(self, store: ImageStore) -> None:
        """V6's server trains its teacher before anything goes down to the clients."""
        if METHODS.get(self.config.method).anchors != "bank":
            return
        public = self.partition.public
        done, total = 0, len(public) * teacher.EPOCHS

        def on_batch(samples: int) -> None:
            nonlocal done
            done += samples
            self.emit(Preparing("teacher", done, total))

        bank = teacher.build_bank(self.task, self.device, store, public, on_batch)
        self.task = replace(self.task, bank=bank)

    def _evaluate(
        self, trainer: Trainer, clients: list[Client], test: ImageStore, store: ImageStore
    ) -> Outcome:
        started = time.perf_counter()
        uploads = [client.upload() for client in clients]
        if self.config.exchanges == 2:
            encoders = [upload.weights for upload in uploads]
            uploads = [
                replace(upload, told={**upload.told, **client.describe(encoders)})
                for client, upload in zip(clients, uploads, strict=True)
            ]
        synchronise(self.device)
        seconds = time.perf_counter() - started
        fused = {name: fuse(trainer, fusion, uploads) for name, fusion in self.config.fusion.items()}
        evaluation = evaluate(trainer, fused, uploads, test)
        held_out = torch.from_numpy(self.partition.validation)
        validation = evaluate(trainer, fused, uploads, store, held_out) if len(held_out) else None
        return Outcome(uploads, fused, evaluation, validation, seconds)

    def _round_ended(
        self, number: int, samples: int, started: float, trained: float, outcome: Outcome | None
    ) -> RoundEnded:
        ended, local, validation = time.perf_counter(), None, None
        if outcome is not None:
            local = outcome.evaluation.local_accuracy(len(self.partition.clients))
            validation = outcome.validation.accuracy() if outcome.validation else None
        upload_seconds = outcome.upload_seconds if outcome else 0.0
        return RoundEnded(
            round=number,
            accuracy=outcome.evaluation.accuracy() if outcome else None,
            validation_accuracy=validation,
            local_accuracy=local,
            samples=samples,
            train_seconds=trained - started,
            upload_seconds=upload_seconds,
            evaluate_seconds=ended - trained - upload_seconds,
            seconds=ended - started,
            samples_per_second=samples / (trained - started),
        )

    def _announce(self, folder: str) -> None:
        sizes = [len(own) for own in self.partition.clients]
        self.emit(
            RunStarted(
                method=self.config.method,
                dataset=self.dataset.name,
                rounds=self.config.train.rounds,
                local_epochs=self.config.train.local_epochs,
                samples=sizes,
                device=device_name(self.device),
                folder=folder,
            )
        )
        for number, size in enumerate(sizes):
            if size == 0:
                message = f"client {number} holds no sample: it is skipped and has weight 0"
                self.emit(Warned("empty-client", message, client=number))
        if self.config.needs:
            labels, facts = self.dataset.train.labels, self.dataset.facts
            largest = self.partition.label_table(labels, facts.classes).max(axis=0)
            untold = (largest < self.config.upload.min_count).sum()
            if untold:
                message = f"{untold} of {facts.classes} classes have no client with upload.min_count="
                message += f"{self.config.upload.min_count} samples: no client tells of them"
                self.emit(Warned("untold-classes", message))

    def _train(self, clients: list[Client], number: int) -> int:
        """A round of all clients; returns how many samples they went through."""

        def start(client: Client) -> Callable[[], ClientRound]:
            def on_batch(samples: int) -> None:
                self.emit(BatchTrained(number, client.number, samples))

            return client.start_round(number, on_batch)

        started = (start(client) for client in clients)
        samples = 0
        for read in list(started) if self.device.type == "cuda" else started:
            event = read()
            samples += event.samples * self.config.train.local_epochs
            self.emit(event)
            if not has_finite_losses(event):
                message = f"client {event.client} has a loss that is not finite; lower train.lr"
                self.emit(Warned("non-finite", message, client=event.client, round=number))
            self._guard(as_record(event))
        return samples

    def _guard(self, record: dict[str, Any]) -> None:
        """Say that a client's lambda is running away, and end the run where that is wanted."""
        reaction = getattr(self.config.align, "guard", "off")
        alarm = None if reaction == "off" else self.guard.look(record)
        if alarm is None:
            return
        self.stopping = reaction == "stop"
        message = f"{alarm.message}; {REACTIONS[reaction]}"
        self.emit(Warned("guard", message, client=alarm.client, round=alarm.round))


def has_finite_losses(event: ClientRound) -> bool:
    return math.isfinite(event.base_loss) and math.isfinite(event.align_loss or 0.0)
