"""What carries tasks down to sites and uploads up: here, for sites in this process."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from anchorfl.compute import EagerStepper, GraphStepper, Stepper, images_at_once
from anchorfl.config import Config
from anchorfl.data import ImageStore, Shard
from anchorfl.events import BatchTrained, ClientRound, EpochEnded, Listener
from anchorfl.messages import Description, Request, Task, Upload
from anchorfl.nn import Runner, public_name
from anchorfl.prepare import Setup
from anchorfl.site import Site, Trainer
from anchorfl.tensors import Tensors, section


class Engine(ABC):
    """Neither site nor server knows which engine there is."""

    @abstractmethod
    def send(self, task: Task) -> None:
        """A task to every site: the first, or that of a later round."""

    @abstractmethod
    def train(self, number: int, listen: Listener) -> Iterator[ClientRound]:
        """A round at every site; what they report of it."""

    @abstractmethod
    def uploads(self) -> list[Upload]:
        """What the sites upload after the round that they trained last."""

    @abstractmethod
    def describe(self, request: Request) -> list[Description]:
        """The second exchange."""

    @abstractmethod
    def checkpoint(self) -> dict[str, Tensors]:
        """By site, all that a round leaves behind there."""

    @abstractmethod
    def restore(self, saved: dict[str, Tensors]) -> None:
        """Put every site back to where a checkpoint was taken."""

    def trouble(self) -> str | None:
        """Why training is slower than it could be, if it is."""
        return None

    @abstractmethod
    def close(self) -> None:
        """Give back what is held."""


@torch.no_grad()
def accuracy_alone(runner: Runner, state: Tensors, images: Shard) -> float:
    """Of a site's state, by its own prototypes and running statistics."""
    runner.network.eval()
    weights = {**section(state, "weights"), **section(state, "buffers")}
    right = torch.zeros((), device=runner.device)
    parts = -(-len(images) // images_at_once(runner.device, images.store.pixels))
    for some, labels in images.batches(parts):
        scores = runner.encode(weights, some.float() / 255) @ weights["prototypes"].T
        right += (scores.argmax(dim=1) == labels).sum()
    return float(right) / len(images)


class InProcess(Engine):
    """One trainer for all sites with the same encoder; a site is some images of one store.

    `names` are the sites', by default their numbers; with `encoder` all have that one. What a site
    measures while it trains, it measures on the `test` images.
    """

    def __init__(
        self,
        setup: Setup,
        places: Sequence[NDArray[np.int64]],
        store: ImageStore,
        test: Shard,
        device: torch.device,
        names: Sequence[str] = (),
        encoder: str = "",
    ) -> None:
        self.setup, self.test, self.device = setup, test, device
        self.trainers: dict[str, Trainer] = {}
        self.sites: list[Site] = []
        for number, own in enumerate(places):
            if len(own):
                network = encoder or public_name(setup.config.model.name_of(number))
                if network not in self.trainers:
                    stepper = stepper_for(setup.config, device)
                    self.trainers[network] = Trainer(setup, device, stepper, network)
                name = names[number] if names else str(number)
                shard = Shard.of(store, own)
                self.sites.append(Site(self.trainers[network], shard, name, number))

    def send(self, task: Task) -> None:
        """A later task: the first came with the setup."""
        for site in self.sites:
            site.receive(task)

    def train(self, number: int, listen: Listener) -> Iterator[ClientRound]:
        """On a GPU all rounds are set going before the first is waited for."""
        sites = [each for each in self.sites if each.trainer.trains and not each.halted]
        started = (self._start(site, number, listen) for site in sites)
        for read in list(started) if self.device.type == "cuda" else started:
            report = read()
            if self.setup.config.upload.telemetry:
                yield report

    def _start(self, site: Site, number: int, listen: Listener) -> Callable[[], ClientRound]:
        def on_batch(samples: int) -> None:
            listen(BatchTrained(number, site.number, samples))

        def on_epoch(epoch: int, state: Tensors, steps: dict[str, list[float]]) -> None:
            runner = site.trainer.runner
            training = accuracy_alone(runner, state, site.samples)
            alone = training, accuracy_alone(runner, state, self.test)
            losses = steps["base_loss"], steps["align_loss"]
            listen(EpochEnded(number, epoch, site.number, *alone, *losses))

        inside = self.setup.config.train.evaluate_inside
        return site.start_round(number, on_batch, on_epoch if inside else None)

    def uploads(self) -> list[Upload]:
        return [site.upload() for site in self.sites]

    def describe(self, request: Request) -> list[Description]:
        return [site.describe(request) for site in self.sites]

    def checkpoint(self) -> dict[str, Tensors]:
        return {site.name: site.checkpoint() for site in self.sites}

    def restore(self, saved: dict[str, Tensors]) -> None:
        for site in self.sites:
            site.restore(saved[site.name])

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
        return GraphStepper(device, config.train.batch)
    return EagerStepper()
