"""A run: data, partition, clients, and the rounds in which they train and are evaluated."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from anchorfl.compute import (
    EagerStepper,
    GraphStepper,
    Stepper,
    choose_device,
    choose_threads,
    device_name,
    synchronise,
    using_threads,
    working_precision,
)
from anchorfl.config import Config
from anchorfl.data import Dataset, ImageStore, Partition, draw_partition, load_dataset
from anchorfl.diagnose import REACTIONS, Guard
from anchorfl.engine import teacher
from anchorfl.engine.events import (
    BatchTrained,
    EpochEnded,
    Evaluating,
    Event,
    Listener,
    Preparing,
    RoundEnded,
    RunStarted,
    Warned,
    as_record,
)
from anchorfl.engine.inside import accuracy_alone
from anchorfl.errors import UserError
from anchorfl.objective import Bank
from anchorfl.registry import STATISTICS
from anchorfl.server import Cost, Evaluation, Fused, admit, costs_of, evaluate, fuse, server_view
from anchorfl.settings import SMALL_IMAGE
from anchorfl.site import Client, Trainer
from anchorfl.tensors import Tensors
from anchorfl.wire import ClientRound, Task, Upload

FEW = 5


@dataclass(frozen=True)
class Outcome:
    """An evaluation point: what the clients uploaded, and how it did; costs only at the end."""

    uploads: list[Upload]
    fused: dict[str, Fused]
    evaluation: Evaluation
    validation: Evaluation | None
    upload_seconds: float
    costs: dict[str, Cost] = field(default_factory=dict)

    @property
    def frozen(self) -> Tensors:
        """The part of the network that no upload contains."""
        return self.uploads[0].frozen


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
        """Read the data, draw the partition, fix what was left to the machine."""
        check(config)
        device = choose_device(config.general.device)
        precision = working_precision(config.train.precision, device)
        config = replace(config, train=replace(config.train, precision=precision))
        dataset = load_dataset(config.data)
        small = max(dataset.facts.shape[1:]) <= SMALL_IMAGE
        threads = choose_threads(config.general.threads, small)
        config = config.replace_general(device=str(device), threads=threads)
        partition = draw_partition(
            dataset.train.labels, config.partition, config.data.validation, dataset.name
        )
        if config.partition.kind == "file":
            config = as_in_file(config, partition, len(dataset.train))
        if config.target is not None and config.target.needs_public and not len(partition.public):
            raise UserError(f"method {config.method} needs a public share, and this partition has none")
        return Federation(config, dataset, partition, Task.prepare(config, dataset.facts), device)

    def emit(self, event: Event) -> None:
        for listener in self.listeners:
            listener(event)

    def run(self, folder: str) -> Outcome:
        """On the run's own number of threads."""
        with using_threads(self.config.general.threads or torch.get_num_threads()):
            return self._run(folder)

    def _run(self, folder: str) -> Outcome:
        """The loop, written once: every client trains alone, then the server looks at all of them."""
        self._announce(folder)
        store = ImageStore(self.dataset.train, self.device)
        test = ImageStore(self.dataset.test, self.device)
        self._fill_bank(store)
        stepper = stepper_for(self.config, self.device)
        trainer = Trainer(self.task, self.device, stepper)
        classes = self.dataset.facts.classes
        clients = [
            Client(number, trainer, store, own, classes)
            for number, own in enumerate(self.partition.clients)
            if len(own)
        ]
        for number in range(self.config.train.rounds):
            started = time.perf_counter()
            samples = self._train(clients, number, test)
            self._warn_if_slow(trainer)
            trained = time.perf_counter()
            outcome = None
            if self.config.train.evaluates(number) or self.stopping:
                self.emit(Evaluating(number))
                outcome = self._evaluate(trainer, clients, test, store)
            self.emit(self._round_ended(number, samples, started, trained, outcome))
            if self.stopping:
                break
        stepper.close()
        assert outcome is not None  # the last round is always evaluated
        runner, fusions = trainer.runner, self.config.fusion
        return replace(outcome, costs=costs_of(fusions, outcome.fused, outcome.uploads, runner, test))

    def _warn_if_slow(self, trainer: Trainer) -> None:
        """State once why a GPU is slower than it could be."""
        if not self.config.train.graphs or self.device.type != "cuda" or self.slow:
            return
        if trainer.stepper.trouble is not None:
            self.slow = f"steps cannot be replayed as CUDA graphs ({trainer.stepper.trouble})"
        elif not trainer.runner.kernels:
            self.slow = (
                "Triton builds no kernel here (a C compiler may be missing): torch's own are used"
            )
        if self.slow:
            self.emit(Warned("slow", self.slow))

    def _fill_bank(self, store: ImageStore) -> None:
        """V6's server trains its teacher before anything goes down to the clients."""
        bank = self.config.target
        if not isinstance(bank, Bank):
            return
        public = self.partition.public
        done, total = 0, len(public) * bank.teacher_epochs

        def on_batch(samples: int) -> None:
            nonlocal done
            done += samples
            self.emit(Preparing("teacher", done, total))

        stepper = stepper_for(self.config, self.device)
        features = teacher.build_bank(self.task, self.device, stepper, store, public, on_batch)
        self.task = replace(self.task, target=features)

    def _evaluate(
        self, trainer: Trainer, clients: list[Client], test: ImageStore, store: ImageStore
    ) -> Outcome:
        started = time.perf_counter()
        uploads = [client.upload() for client in clients]
        if self.config.exchanges == 2:
            encoders = [upload.weights for upload in uploads]
            uploads = [
                replace(upload, statistics=upload.statistics | client.statistics(2, encoders))
                for client, upload in zip(clients, uploads, strict=True)
            ]
        synchronise(self.device)
        seconds = time.perf_counter() - started
        runner = trainer.runner
        admit(uploads, runner.network)
        view = server_view(self.config, self.dataset.facts, runner)
        fused = fuse(self.config.fusion, uploads, runner, view)
        evaluation = evaluate(fused, uploads, runner, test)
        held_out = torch.from_numpy(self.partition.validation)
        validation = evaluate(fused, uploads, runner, store, held_out) if len(held_out) else None
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
                threads=self.config.general.threads or torch.get_num_threads(),
                folder=folder,
            )
        )
        empty = [number for number, size in enumerate(sizes) if size == 0]
        if len(empty) > FEW:
            message = f"{len(empty):,} of {len(sizes):,} clients hold no sample: they are skipped"
            self.emit(Warned("empty-client", message))
        for number in empty if len(empty) <= FEW else ():
            message = f"client {number} holds no sample: it is skipped and has weight 0"
            self.emit(Warned("empty-client", message, client=number))
        if self.config.needs:
            labels, facts = self.dataset.train.labels, self.dataset.facts
            largest = self.partition.label_table(labels, facts.classes).max(axis=0)
            missing = (largest < self.config.upload.min_count).sum()
            if missing:
                message = f"{missing} of {facts.classes} classes have no client with upload.min_count="
                message += f"{self.config.upload.min_count} samples: no upload describes them"
                self.emit(Warned("undescribed-classes", message))

    def _train(self, clients: list[Client], number: int, test: ImageStore) -> int:
        """A round of all clients; returns how many samples they went through."""
        inside = self.config.train.evaluate_inside

        def start(client: Client) -> Callable[[], ClientRound]:
            def on_batch(samples: int) -> None:
                self.emit(BatchTrained(number, client.number, samples))

            def on_epoch(epoch: int, state: Tensors, steps: dict[str, list[float]]) -> None:
                runner = client.trainer.runner
                training = accuracy_alone(runner, state, client.store, client.own)
                alone = training, accuracy_alone(runner, state, test)
                losses = steps["base_loss"], steps["align_loss"]
                self.emit(EpochEnded(number, epoch, client.number, *alone, *losses))

            return client.start_round(number, on_batch, on_epoch if inside else None)

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
        """Warn that a client's lambda is running away, and end the run where that is wanted."""
        reaction = self.config.align.guard
        alarm = None if reaction == "off" else self.guard.look(record)
        if alarm is None:
            return
        self.stopping = reaction == "stop"
        message = f"{alarm.message}; {REACTIONS[reaction]}"
        self.emit(Warned("guard", message, client=alarm.client, round=alarm.round))


def check(config: Config) -> None:
    """Refuse what could only fail after training."""
    for need in config.needs:
        STATISTICS.get(need)
    primary = next(iter(config.fusion))
    if config.fusion[primary].transductive:
        raise UserError(
            f"fusion={','.join(config.fusion)}: {primary} scores an image by the others beside it, so"
            " it can be evaluated but makes no predictor; name another fusion first"
        )


def as_in_file(config: Config, partition: Partition, total: int) -> Config:
    """A partition's file decides the number of clients and the shares."""
    data = replace(config.data, validation=len(partition.validation) / total)
    public, clients = len(partition.public) / total, len(partition.clients)
    drawn = replace(config.partition, clients=clients, public=public)
    return replace(config, data=data, partition=drawn)


def stepper_for(config: Config, device: torch.device) -> Stepper:
    """Steps replayed as CUDA graphs on a GPU, unless that is switched off."""
    if config.train.graphs and device.type == "cuda":
        return GraphStepper(device, config.train.batch_size)
    return EagerStepper()


def has_finite_losses(event: ClientRound) -> bool:
    return math.isfinite(event.base_loss) and math.isfinite(event.align_loss or 0.0)
