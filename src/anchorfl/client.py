"""A client: its own samples and the task it was sent, trained alone."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import fields

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from anchorfl.balance import ClientFacts
from anchorfl.data.dataset import ImageStore
from anchorfl.devices import send
from anchorfl.events import ClientRound
from anchorfl.randomness import generator, seeded
from anchorfl.schedules import SCHEDULES
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
        self.state: Tensors = trainer.initial_state(ClientFacts(self.class_counts))

    def train_round(self, number: int, on_batch: Callable[[int], None]) -> ClientRound:
        """`train.local_epochs` epochs; the only wait for the device is at the end."""
        options = self.config.train
        started = time.perf_counter()
        if options.reset_optimizer:
            for momentum in section(self.state, "momentum").values():
                momentum.zero_()
        sums: Tensors = {}
        last: Tensors = {}
        steps, anneal = 0, 1.0
        for local_epoch in range(options.local_epochs):
            epoch = number * options.local_epochs + local_epoch
            anneal = self._train_epoch(epoch, sums, last, on_batch)
            steps += batch_count(len(self.own), options.batch_size)
        return self._event(number, steps, anneal, sums, last, started)

    def _train_epoch(
        self, epoch: int, sums: Tensors, last: Tensors, on_batch: Callable[[int], None]
    ) -> float:
        """One pass over the client's samples; adds to `sums`, leaves the last readings in `last`."""
        options, device = self.config.train, self.trainer.device
        samples, total = len(self.own), options.rounds * options.local_epochs
        count = batch_count(samples, options.batch_size)
        order = torch.randperm(samples, generator=self._generator("order", epoch))
        index = send(self.own[order], self.store.index_device)
        draws = self.trainer.augmentation.draw(2 * samples, self._generator("augment", epoch))
        draws = send(draws.view(2, samples, -1), device)
        progress = [(epoch + step / count) / total for step in range(count)]
        rates = torch.tensor([options.lr * SCHEDULES[options.schedule](p) for p in progress])
        anneal = SCHEDULES[self.config.align.schedule](epoch / total)
        on_device = send(torch.cat([rates, torch.tensor([anneal])]), device)
        batches = zip(index.tensor_split(count), draws.tensor_split(count, dim=1), strict=True)
        with seeded(self.config.seed, "dropout", self.number, epoch, device):
            for step, (own, draw) in enumerate(batches):
                batch = Batch(*self.store.take(own), draw)
                readings = self.trainer.step(self.state, batch, on_device[step], on_device[-1])
                for name in ("base_loss", "align_loss", "clip_factor"):
                    reading = readings.pop(name) * len(own)
                    sums[name] = sums[name] + reading if name in sums else reading
                last.update(readings)
                on_batch(len(own))
        return anneal

    def _generator(self, purpose: str, epoch: int) -> torch.Generator:
        return generator(self.config.seed, purpose, self.number, epoch)

    def _event(
        self, number: int, steps: int, anneal: float, sums: Tensors, last: Tensors, started: float
    ) -> ClientRound:
        seen = len(self.own) * self.config.train.local_epochs
        readings = {**{name: value / seen for name, value in sums.items()}, **last}
        values = torch.stack([value.float() for value in readings.values()]).tolist()
        read = dict(zip(readings, values, strict=True))
        aligned = self.trainer.anchors is not None
        align_loss = read.pop("align_loss")
        named = {item.name for item in fields(ClientRound)}
        return ClientRound(
            round=number,
            client=self.number,
            samples=len(self.own),
            steps=steps,
            base_loss=read.pop("base_loss"),
            align_loss=align_loss if aligned else None,
            clip_factor=read.pop("clip_factor"),
            anneal=anneal if aligned else None,
            seconds=time.perf_counter() - started,
            readings={name: read[name] for name in read if name not in named},
            **{name: read[name] for name in read if name in named},
        )

    def upload(self) -> Upload:
        """What leaves the client."""
        buffers = section(self.state, "buffers")
        if self.config.upload.batchnorm == "recomputed" and self.trainer.norms:
            buffers = self.trainer.recomputed_statistics(self.state, self._own_batches())
        network = {**section(self.state, "weights"), **buffers}
        frozen = {name: value.detach().clone() for name, value in network.items()}
        return Upload(self.number, self.class_counts, frozen)

    def _own_batches(self) -> Iterator[Tensor]:
        index = self.own.to(self.store.index_device)
        for part in index.tensor_split(batch_count(len(self.own), STATISTICS_BATCH)):
            yield self.store.take(part)[0]
