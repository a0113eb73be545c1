"""A federation in one process: many sites, one server, and the rounds between them."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from anchorfl.compute import choose_device, choose_threads, synchronise, working_precision
from anchorfl.config import Config
from anchorfl.data import ImageStore, Partition, Shard, draw_partition, load_dataset
from anchorfl.errors import UserError
from anchorfl.events import Preparing, Warned
from anchorfl.files import write_whole
from anchorfl.loop import (
    Engine,
    InProcess,
    Outcome,
    Rounds,
    check_own_balance,
    stepper_for,
    warnings_before,
    write_frozen,
)
from anchorfl.messages import Task
from anchorfl.objective import Bank
from anchorfl.prepare import Setup, new_task
from anchorfl.registry import is_in_a_file
from anchorfl.runs import RunFolder
from anchorfl.server import Cost, Fused, Server, check_experiment
from anchorfl.settings import SMALL_IMAGE, fill_by_images
from anchorfl.simulate.teacher import build_bank
from anchorfl.transport.flower_run import QUIET

CHECKPOINT_ON_GPU = 10
"""Rounds: there a round takes a second, and a checkpoint has half a gigabyte to write."""


class Simulation(Rounds):
    """Every client of a partition is a site; after a round the server fuses what they upload."""

    fused: dict[str, Fused]

    @staticmethod
    def prepare(config: Config) -> Simulation:
        """Read the data, draw the partition, fix what was left to the machine and to the data."""
        config = fixed_for_machine(config)
        dataset = load_dataset(config.data)
        check_experiment(config)
        pixels = max(dataset.facts.shape[1:])
        threads = choose_threads(config.general.threads, pixels <= SMALL_IMAGE)
        config = config.replace_general(threads=threads)
        sites, labels = dataset.train.sites, dataset.train.labels
        partition = draw_partition(
            labels, config.partition, config.data.validation, dataset.name, sites
        )
        names: list[str] = []
        if config.partition.kind == "sites" and sites is not None:
            names = sites.names
            config = replace(config, partition=replace(config.partition, clients=len(names)))
        if config.partition.kind == "file":
            config = as_in_file(config, partition, len(dataset.train))
        config = fill_by_images(config, pixels, len(dataset.train))
        if config.target is not None and config.target.needs_public and not len(partition.public):
            raise UserError(f"method {config.method} needs a public share, and this partition has none")
        if is_in_a_file(config.method):
            check_own_balance(config.method, config.align, dataset.facts.classes)
        setup = Setup(new_task(config, dataset.facts, tuple(dataset.class_names)), config)
        device = torch.device(config.general.device)
        return Simulation(setup, dataset, partition, device, names)

    @cached_property
    def store(self) -> ImageStore:
        return ImageStore(self.dataset.train, self.device)

    @cached_property
    def test(self) -> Shard:
        return Shard.whole(self.dataset.test, self.device)

    @cached_property
    def server(self) -> Server:
        return Server(self.setup, self.device)

    def warnings(self) -> Iterator[Warned]:
        return warnings_before(self.dataset, self.partition, self.config)

    def run(self, folder: str) -> Outcome:
        return super().run(folder) if self.config.general.engine != "flower" else self.on_flower(folder)

    def on_flower(self, folder: str) -> Outcome:
        """The same loop inside Flower's simulation runtime, which brings up a node for each site."""
        from anchorfl.simulate.on_flower import OnFlower, simulated

        def loop(engine: OnFlower) -> Outcome:
            self.announce(folder)
            self.prepare_task()
            engine.send(self.task)
            return self.train(engine)

        holding = [number for number, own in enumerate(self.partition.clients) if len(own)]
        return simulated(self.config, holding, self.names, loop)

    def open(self) -> Engine:
        self.prepare_task()
        places = self.partition.clients
        return InProcess(self.setup, places, self.store, self.test, self.device, self.sites)

    def prepare_task(self) -> None:
        """As the checkpoint left it; else V6's server trains its teacher before anything goes down."""
        bank = self.config.target
        if self.begun is not None:
            self.now = self.begun.task_now(self.task)
            if not self.now.round:
                self.begin_with(self.now)
            self.server.task = self.now
        elif isinstance(bank, Bank):
            self.begin_with(replace(self.task, target=self.bank(bank)))

    def begin_with(self, task: Task) -> None:
        """Another first task, with a target that the server made."""
        self.task = self.now = self.server.task = task
        self.setup = replace(self.setup, task=task)

    def bank(self, bank: Bank) -> Tensor:
        public = Shard.of(self.store, self.partition.public)
        done, total = 0, len(public) * bank.teacher_epochs

        def on_batch(samples: int) -> None:
            nonlocal done
            done += samples
            self.emit(Preparing("teacher", done, total))

        stepper = stepper_for(self.config, self.device)
        return build_bank(self.setup, bank, self.device, stepper, public, on_batch)

    def step(self, engine: Engine, outcome: Outcome | None) -> None:
        if outcome is None and self.server.half is not None:
            self.server.hold(engine.uploads())
        task = self.server.next_task()
        if task is not None:
            self.now = task
            engine.send(task)

    def evaluate(self, engine: Engine) -> Outcome:
        started = time.perf_counter()
        server = self.server
        server.hold(engine.uploads())
        request = server.request()
        if request is not None:
            server.answer(engine.describe(request))
        synchronise(self.device)
        seconds = time.perf_counter() - started
        self.fused = server.fuse_all()
        evaluation = server.evaluate(self.fused, self.test)
        held_out, validation = Shard.of(self.store, self.partition.validation), None
        if len(held_out):
            validation = server.evaluate(self.fused, held_out)
        return Outcome(evaluation, validation, seconds)

    def close(self, engine: Engine) -> None:
        engine.close()
        for doubt in self.server.doubts:
            self.emit(Warned("doubted-site", doubt))

    def finish(self, folder: RunFolder, outcome: Outcome) -> dict[str, Any]:
        """The uploads and the model; what each fusion costs, and how well it is calibrated."""
        assert outcome.evaluation is not None
        server = self.server
        temperatures = {name: each.score_temperature for name, each in server.fusions.items()}
        if outcome.validation is not None:
            temperatures = outcome.validation.temperatures()
        costs = server.costs(self.fused)
        sizes = self.write_uploads(folder)
        if self.config.model.save:
            name = next(iter(server.fusions))
            server.model(name, self.fused[name], temperatures[name]).save(folder.model)
        sent = [
            sum(value.nbytes for value in each.trained.values()) for each in server.uploads.values()
        ]
        return {
            "temperature": temperatures,
            "calibration_error": outcome.evaluation.calibration_errors(temperatures),
            "task_bytes": len(self.setup.task.to_bytes()),
            "upload_bytes": sizes,
            "exchange_bytes": [sum(sent) - own for own in sent] if server.exchanges == 2 else None,
            **by_measure(costs),
        }

    def write_uploads(self, folder: RunFolder) -> list[int | None]:
        """A file per site, and one of what they all leave out; their sizes."""
        folder.uploads.mkdir(exist_ok=True)
        sizes: list[int | None] = [None] * len(self.names)
        for number, name in enumerate(self.names):
            upload = self.server.uploads.get(name)
            if upload is not None:
                data = upload.to_bytes()
                sizes[number] = len(data)
                write_whole(folder.upload(number), data)
        write_frozen(folder, self.server.uploads.values())
        return sizes


def fixed_for_machine(config: Config) -> Config:
    """What is left to the machine, decided once: a task's sites need not agree on it."""
    if config.general.engine == "flower":
        require_flower(config)
    device = choose_device(config.general.device)
    every = CHECKPOINT_ON_GPU if device.type == "cuda" else 1
    return config.replace_general(device=str(device)).replace_train(
        precision=working_precision(config.train.precision, device),
        checkpoint_every=config.train.checkpoint_every or every,
    )


def require_flower(config: Config) -> None:
    """Flower itself, and nothing that runs in this process alone."""
    os.environ.update(QUIET)
    try:
        import flwr  # noqa: F401
    except ModuleNotFoundError:
        wanted = "pip install 'anchorfl[flower]'"
        raise UserError(f"engine=flower: Flower is not installed: {wanted}") from None
    if config.train.evaluate_inside:
        raise UserError("engine=flower: train.evaluate_inside is measured in one process alone")
    for name in (config.method, config.data.name, *config.fusion):
        if is_in_a_file(name):
            raise UserError(
                f"engine=flower: {name} must be installed as a package, where sites find it"
            )


def by_measure(costs: dict[str, Cost]) -> dict[str, dict[str, float]]:
    """By what is measured, then by fusion."""
    found: dict[str, dict[str, float]] = {}
    for name, cost in costs.items():
        for measure, value in asdict(cost).items():
            found.setdefault(measure, {})[name] = value
    return found


def as_in_file(config: Config, partition: Partition, total: int) -> Config:
    """A partition's file decides the number of clients and the shares."""
    data = replace(config.data, validation=len(partition.validation) / total)
    public, clients = len(partition.public) / total, len(partition.clients)
    drawn = replace(config.partition, clients=clients, public=public)
    return replace(config, data=data, partition=drawn)
