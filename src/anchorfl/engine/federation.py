"""A run: data, partition, clients, and the rounds in which they train and are evaluated."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from anchorfl.compute import (
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
from anchorfl.engine.checkpoints import Checkpoint, Checkpoints
from anchorfl.engine.data_warnings import data_warnings, untested_classes
from anchorfl.engine.engine import Engine
from anchorfl.engine.events import (
    Evaluating,
    Event,
    Listener,
    Preparing,
    RoundEnded,
    RunStarted,
    Warned,
    as_record,
)
from anchorfl.engine.flower_quiet import QUIET
from anchorfl.engine.in_process import InProcess, stepper_for
from anchorfl.engine.own_balance import check_own_balance
from anchorfl.errors import UserError
from anchorfl.methods import Method
from anchorfl.objective import Bank
from anchorfl.registry import FUSIONS, METHODS, SERVER_HALVES, STATISTICS, is_in_a_file
from anchorfl.server import SKETCH, Cost, Evaluation, Fused, Server
from anchorfl.settings import SMALL_IMAGE
from anchorfl.wire import ClientRound, Task, Upload

CHECKPOINT_ON_GPU = 10
"""Rounds: there a round takes a second, and a checkpoint has half a gigabyte to write."""


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
    """Everything a run works with, prepared and checked before the first step.

    `sites` are the clients' names, where they have any; with `encoder` all have that one.
    """

    config: Config
    dataset: Dataset
    partition: Partition
    task: Task
    device: torch.device
    listeners: list[Listener] = field(default_factory=list)
    checkpoints: Checkpoints | None = None
    begun: Checkpoint | None = None
    stopping: bool = False
    slow: str = ""
    sites: Sequence[str] = ()
    encoder: str = ""

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
        every = config.train.checkpoint_every or (CHECKPOINT_ON_GPU if device.type == "cuda" else 1)
        config = replace(config, train=replace(config.train, checkpoint_every=every))
        partition = draw_partition(
            dataset.train.labels,
            config.partition,
            config.data.validation,
            dataset.name,
            dataset.train.sites,
        )
        names: Sequence[str] = ()
        if config.partition.kind == "sites" and dataset.train.sites is not None:
            names = dataset.train.sites.names
            config = replace(config, partition=replace(config.partition, clients=len(names)))
        if config.partition.kind == "file":
            config = as_in_file(config, partition, len(dataset.train))
        if config.target is not None and config.target.needs_public and not len(partition.public):
            raise UserError(f"method {config.method} needs a public share, and this partition has none")
        if is_in_a_file(config.method):
            check_own_balance(config.method, config.align, dataset.facts.classes)
        task = Task.prepare(config, dataset.facts, tuple(dataset.class_names))
        return Federation(config, dataset, partition, task, device, sites=names)

    def go_on_from(self, begun: Checkpoint) -> None:
        """Continue a run that was cut off; what its records hold is not said again."""
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
            if self.config.general.engine == "flower":
                return self._run_on_flower(folder)
            return self._run(folder)

    def _run_on_flower(self, folder: str) -> Outcome:
        os.environ.update(QUIET)
        try:
            from anchorfl.engine.on_flower import simulated
        except ModuleNotFoundError:
            wanted = "pip install 'anchorfl[flower]'"
            raise UserError(f"engine=flower: Flower is not installed: {wanted}") from None
        holding = [number for number, own in enumerate(self.partition.clients) if len(own)]
        return simulated(self.config, holding, lambda engine: self._run(folder, engine))

    def _run(self, folder: str, engine: Engine | None = None) -> Outcome:
        """The loop, written once: every site trains alone, then the server looks at all of them."""
        self._announce(folder)
        store = ImageStore(self.dataset.train, self.device)
        test = ImageStore(self.dataset.test, self.device)
        prepared = self.task
        self._fill_bank(store)
        server = Server(self.task, self.device)
        own = self.partition.clients
        if engine is None:
            engine = InProcess(own, store, test, self.device, self.sites, self.encoder)
        engine.send(self.task)
        if self.begun is not None:
            server.task = self.begun.task_now(self.task)
            if server.task.round:
                engine.send(server.task)
            engine.restore(self.begun.sites)
        last, outcome = self.config.train.rounds - 1, None
        for number in range(self.begun.position if self.begun else 0, self.config.train.rounds):
            started = time.perf_counter()
            samples = self._train(engine, number)
            self._warn_if_slow(engine)
            trained = time.perf_counter()
            outcome = None
            if self.config.train.evaluates(number) or self.stopping:
                self.emit(Evaluating(number))
                outcome = self._evaluate(server, engine, test, store)
            self.emit(self._round_ended(number, samples, started, trained, outcome))
            if self.stopping:
                break
            if server.half is not None and number < last:
                task = server.step(outcome.uploads if outcome else engine.uploads())
                assert task is not None  # the method has a server half
                engine.send(task)
            if self.checkpoints is not None and self._keeps(number):
                sites = engine.checkpoint()
                self.checkpoints.save(
                    Checkpoint.take(number + 1, self.partition.hash, prepared, server.task, sites)
                )
        engine.close()
        for doubt in server.doubts:
            self.emit(Warned("doubted-site", doubt))
        assert outcome is not None  # the last round is always evaluated
        return replace(outcome, costs=server.costs(outcome.fused, outcome.uploads, test))

    def _keeps(self, number: int) -> bool:
        """Whether a round ends in a checkpoint: never the last, after which the run is complete."""
        every = self.config.train.checkpoint_every or 1
        return (number + 1) % every == 0 and number + 1 < self.config.train.rounds

    def _warn_if_slow(self, engine: Engine) -> None:
        """State once why a GPU is slower than it could be."""
        if not self.slow:
            self.slow = engine.trouble() or ""
            if self.slow:
                self.emit(Warned("slow", self.slow))

    def _fill_bank(self, store: ImageStore) -> None:
        """V6's server trains its teacher before anything goes down to the clients."""
        bank = self.config.target
        if not isinstance(bank, Bank):
            return
        if self.begun is not None:
            self.task = self.begun.task_now(self.task)
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

    def _evaluate(self, server: Server, engine: Engine, test: ImageStore, store: ImageStore) -> Outcome:
        started = time.perf_counter()
        uploads = engine.uploads()
        request = server.request(uploads)
        if request is not None:
            uploads = server.with_descriptions(uploads, engine.describe(request))
        synchronise(self.device)
        seconds = time.perf_counter() - started
        fused = server.fuse(uploads)
        evaluation = server.evaluate(fused, uploads, test)
        held_out = torch.from_numpy(self.partition.validation)
        validation = server.evaluate(fused, uploads, store, held_out) if len(held_out) else None
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
                begun=self.begun.position if self.begun else 0,
            )
        )
        if self.begun is None:
            for warning in self._data_warnings():
                self.emit(warning)

    def _data_warnings(self) -> Iterator[Warned]:
        if len(self.sites) == 1:
            return untested_classes(self.dataset)
        return data_warnings(self.dataset, self.partition, self.config)

    def _train(self, engine: Engine, number: int) -> int:
        """A round of all sites; returns how many samples they went through."""
        for event in engine.train(number, self.emit):
            self.emit(event)
            if has_diverged(event):
                message = f"client {event.client} diverged in round {number}: it stops, and keeps the"
                message += " weights that it had before; lower train.lr"
                self.emit(Warned("non-finite", message, client=event.client, round=number))
            self._guard(as_record(event))
        if not METHODS.get(self.config.method).trains:
            return 0
        held = sum(len(own) for own in self.partition.clients)
        return held * self.config.train.local_epochs

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
    names = ",".join(config.fusion)
    primary = next(iter(config.fusion))
    if config.fusion[primary].transductive:
        raise UserError(
            f"fusion={names}: {primary} scores an image by the others beside it, so"
            " it can be evaluated but makes no predictor; name another fusion first"
        )
    method = METHODS.get(config.method)
    for name, fusion in config.fusion.items():
        if not method.trains and fusion.reads != SKETCH:
            raise UserError(
                f"fusion={names}: {name} needs encoders, and method {config.method} trains none;"
                " use sketch-lda"
            )
    if len(config.model.names) > 1:
        check_mix(config, method)


def check_mix(config: Config, method: Method) -> None:
    """Different encoders: refused where weights or features of unlike networks would be added."""
    given = f"model.name={config.model.name}"
    if config.target is not None and config.target.needs_public:
        raise UserError(f"{given}: method {config.method} has one bank for all, of one encoder")
    if method.server is not None and not SERVER_HALVES.get(method.server).mixes:
        raise UserError(f"{given}: method {config.method} sends one model or one set of means to all")
    apart = [name for name, fusion in config.fusion.items() if not fusion.mixes]
    if apart:
        able = ", ".join(name for name in FUSIONS.names() if FUSIONS.get(name).mixes)
        raise UserError(
            f"fusion={','.join(config.fusion)}: {apart[0]} adds features or weights of all clients,"
            f" which different encoders do not allow; use some of {able}"
        )


def as_in_file(config: Config, partition: Partition, total: int) -> Config:
    """A partition's file decides the number of clients and the shares."""
    data = replace(config.data, validation=len(partition.validation) / total)
    public, clients = len(partition.public) / total, len(partition.clients)
    drawn = replace(config.partition, clients=clients, public=public)
    return replace(config, data=data, partition=drawn)


def has_diverged(event: ClientRound) -> bool:
    return bool(event.readings.get("diverged"))
