"""A client: its own samples and the task it was sent, trained alone."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import fields

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from anchorfl.balance import ClientFacts, Losses
from anchorfl.data.dataset import ImageStore
from anchorfl.devices import send
from anchorfl.events import ClientRound
from anchorfl.randomness import generator, seeded
from anchorfl.schedules import SCHEDULES, Moment
from anchorfl.tensors import Tensors, section
from anchorfl.training import Batch, Trainer
from anchorfl.upload import Upload

STATISTICS_BATCH = 1024


def batch_count(samples: int, batch_size: int) -> int:
    """Near-equal batches: ceil(n/b) of them, fewer where one would hold a single sample."""
    return max(1, min(-(-samples // batch_size), samples // 2))


class Client:
    """Holds a flat state between rounds; nothing the server computes ever comes back to it."""

    def __init__(
        self, number: int, trainer: Trainer, store: ImageStore, own: NDArray[np.int64], classes: int
    ) -> None:
        self.number, self.trainer, self.store = number, trainer, store
        self.config = trainer.config
        self.own = torch.from_numpy(own)
        labels = store.labels[self.own.to(store.index_device)]
        self.class_counts = torch.bincount(labels, minlength=classes).cpu()
        self.batches = batch_count(len(own), self.config.train.batch_size)
        facts = ClientFacts(self.class_counts, self.batches)
        self.state: Tensors = trainer.initial_state(facts)

    def train_round(self, number: int, on_batch: Callable[[int], None]) -> ClientRound:
        """`train.local_epochs` epochs; the only wait for the device is at the end."""
        options = self.config.train
        started = time.perf_counter()
        if options.reset_optimizer:
            for momentum in section(self.state, "momentum").values():
                momentum.zero_()
        sums: Tensors = {}
        anneal = 1.0
        for local_epoch in range(options.local_epochs):
            epoch = number * options.local_epochs + local_epoch
            anneal = self._train_epoch(epoch, sums, on_batch)
        return self._event(number, anneal, sums, started)

    def _train_epoch(self, epoch: int, sums: Tensors, on_batch: Callable[[int], None]) -> float:
        """One pass over the client's samples; adds what its steps measure to `sums`; returns s."""
        options, device = self.config.train, self.trainer.device
        samples, total = len(self.own), options.rounds * options.local_epochs
        count = self.batches
        order = torch.randperm(samples, generator=self._generator("order", epoch))
        index = send(self.own[order], self.store.index_device)
        draws = self.trainer.augmentation.draw(2 * samples, self._generator("augment", epoch))
        draws = send(draws.view(2, samples, -1), device)
        progress = [(epoch + step / count) / total for step in range(count)]
        rates = torch.tensor([options.lr * SCHEDULES[options.schedule](p) for p in progress])
        anneal = self.config.align.anneal(Moment(epoch, total, options.local_epochs))
        on_device = send(torch.cat([rates, torch.tensor([anneal])]), device)
        batches = zip(index.tensor_split(count), draws.tensor_split(count, dim=1), strict=True)
        with seeded(self.config.seed, "dropout", self.number, epoch, device):
            for step, (own, draw) in enumerate(batches):
                batch = Batch(*self.store.take(own), draw)
                measured = self.trainer.step(self.state, batch, on_device[step], on_device[-1])
                for name, value in measured.items():
                    sums[name] = sums.get(name, 0.0) + value * len(own)
                on_batch(len(own))
        return anneal

    def _generator(self, purpose: str, epoch: int) -> torch.Generator:
        return generator(self.config.seed, purpose, self.number, epoch)

    @torch.no_grad()
    def _event(self, number: int, anneal: float, sums: Tensors, started: float) -> ClientRound:
        """A round's means, and the balance's readings of them and of the state it ended in."""
        epochs = self.config.train.local_epochs
        means = {name: value / (len(self.own) * epochs) for name, value in sums.items()}
        losses = Losses(*(means[f"{name}_loss"] for name in Losses._fields))
        if number == 0:
            for name, value in self.config.align.after_first_round(losses).items():
                self.state[f"balance/{name}"].copy_(value)
        factor = torch.tensor(anneal, device=self.trainer.device)
        readings = {
            **means,
            **self.config.align.readings(losses, section(self.state, "balance"), factor),
            **self._prototype_norms(),
        }
        values = torch.stack([value.float() for value in readings.values()]).tolist()
        read = dict(zip(readings, values, strict=True))
        if not self.trainer.aligned:
            read.pop("align_loss")
        named = {item.name for item in fields(ClientRound)}
        return ClientRound(
            round=number,
            client=self.number,
            samples=len(self.own),
            steps=self.batches * epochs,
            anneal=anneal if self.trainer.aligned else None,
            seconds=time.perf_counter() - started,
            readings={name: read[name] for name in read if name not in named},
            **{name: read[name] for name in read if name in named},
        )

    def _prototype_norms(self) -> Tensors:
        """Mean norm of the prototypes of the classes this client holds, and of the others."""
        norms, seen = self.state["weights/prototypes"].norm(dim=1), self.class_counts > 0
        groups = {"prototype_norm_seen": seen, "prototype_norm_unseen": ~seen}
        return {
            name: norms[classes.to(norms.device)].mean()
            for name, classes in groups.items()
            if classes.any()
        }

    @torch.no_grad()
    def upload(self) -> Upload:
        """What leaves the client; class means only where a fusion asks for them."""
        buffers = section(self.state, "buffers")
        if self.config.upload.batchnorm == "recomputed" and self.trainer.norms:
            images = (images for images, _ in self._own_batches())
            buffers = self.trainer.recomputed_statistics(self.state, images)
        network = {**section(self.state, "weights"), **buffers}
        frozen = {name: value.detach().clone() for name, value in network.items()}
        needed = {need for fusion in self.config.fusion.values() for need in fusion.needs}
        means = self._class_means(frozen) if "class_means" in needed else None
        return Upload(self.number, self.class_counts, frozen, means)

    def _class_means(self, weights: Tensors) -> Tensor:
        """Mean normalised feature of each class, 0 for a class under `upload.min_count` samples."""
        self.trainer.network.eval()
        counts = self.class_counts.to(self.trainer.device)
        sums = torch.zeros_like(weights["prototypes"])
        for images, labels in self._own_batches():
            sums.index_add_(0, labels, self.trainer.encode(weights, images.float() / 255))
        told = counts >= self.config.upload.min_count
        return sums * (told / counts.clamp(min=1))[:, None]

    def _own_batches(self) -> Iterator[tuple[Tensor, Tensor]]:
        index = self.own.to(self.store.index_device)
        for part in index.tensor_split(batch_count(len(self.own), STATISTICS_BATCH)):
            yield self.store.take(part)
