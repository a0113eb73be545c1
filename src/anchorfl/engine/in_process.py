"""All sites simulated in this process, on one device: values are handed over, nothing is copied."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from anchorfl.compute import EagerStepper, GraphStepper, Stepper
from anchorfl.config import Config
from anchorfl.data import ImageStore
from anchorfl.engine.engine import Engine
from anchorfl.engine.events import BatchTrained, EpochEnded, Event
from anchorfl.engine.inside import accuracy_alone
from anchorfl.models import public_name
from anchorfl.site import Client, Trainer
from anchorfl.tensors import Tensors
from anchorfl.wire import ClientRound, Description, Request, Task, Upload


class InProcess(Engine):
    """One trainer for all sites with the same encoder; a site is an index into one store.

    `sites` are their names, if they have any; with `encoder` all have that one.
    """

    def __init__(
        self,
        owns: Sequence[NDArray[np.int64]],
        store: ImageStore,
        test: ImageStore,
        device: torch.device,
        sites: Sequence[str] = (),
        encoder: str = "",
    ) -> None:
        self.owns, self.store, self.test, self.device = owns, store, test, device
        self.sites, self.encoder = sites, encoder
        self.trainers: dict[str, Trainer] = {}
        self.clients: list[Client] = []

    def send(self, task: Task) -> None:
        if not self.clients:
            self._settle(task)
        else:
            for trainer in self.trainers.values():
                trainer.receive(task)
            for client in self.clients:
                client.receive(task)

    def _settle(self, task: Task) -> None:
        for number, own in enumerate(self.owns):
            if not len(own):
                continue
            name = self.encoder or public_name(task.config.model.name_of(number))
            site = self.sites[number] if self.sites else ""
            if name not in self.trainers:
                stepper = stepper_for(task.config, self.device)
                self.trainers[name] = Trainer(task.for_encoder(name), self.device, stepper)
            trainer, classes = self.trainers[name], task.facts.classes
            self.clients.append(Client(number, trainer, self.store, own, classes, site))

    def train(self, number: int, listen: Callable[[Event], None]) -> Iterator[ClientRound]:
        """On a GPU all rounds are set going before the first is waited for."""
        clients = [each for each in self.clients if each.trainer.trains and not each.halted]
        started = (self._start(client, number, listen) for client in clients)
        for read in list(started) if self.device.type == "cuda" else started:
            report = read()
            if clients[0].config.upload.telemetry:
                yield report

    def _start(
        self, client: Client, number: int, listen: Callable[[Event], None]
    ) -> Callable[[], ClientRound]:
        def on_batch(samples: int) -> None:
            listen(BatchTrained(number, client.number, samples))

        def on_epoch(epoch: int, state: Tensors, steps: dict[str, list[float]]) -> None:
            runner = client.trainer.runner
            training = accuracy_alone(runner, state, client.store, client.own)
            alone = training, accuracy_alone(runner, state, self.test)
            losses = steps["base_loss"], steps["align_loss"]
            listen(EpochEnded(number, epoch, client.number, *alone, *losses))

        inside = client.config.train.evaluate_inside
        return client.start_round(number, on_batch, on_epoch if inside else None)

    def uploads(self) -> list[Upload]:
        return [client.upload() for client in self.clients]

    def describe(self, request: Request) -> list[Description]:
        return [client.describe(request) for client in self.clients]

    def checkpoint(self) -> dict[int, Tensors]:
        return {client.number: client.checkpoint() for client in self.clients}

    def restore(self, saved: dict[int, Tensors]) -> None:
        for client in self.clients:
            client.restore(saved[client.number])

    def trouble(self) -> str | None:
        for trainer in self.trainers.values():
            if self.device.type != "cuda" or not trainer.config.train.graphs:
                return None
            if trainer.stepper.trouble is not None:
                return f"steps cannot be replayed as CUDA graphs ({trainer.stepper.trouble})"
            if not trainer.runner.kernels:
                return (
                    "Triton builds no kernel here (a C compiler may be missing): torch's own are used"
                )
        return None

    def close(self) -> None:
        for trainer in self.trainers.values():
            trainer.stepper.close()


def stepper_for(config: Config, device: torch.device) -> Stepper:
    """Steps replayed as CUDA graphs on a GPU, unless that is switched off."""
    if config.train.graphs and device.type == "cuda":
        return GraphStepper(device, config.train.batch_size)
    return EagerStepper()
