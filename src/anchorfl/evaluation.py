"""Any number of fusions in one pass over the images, each encoder run once."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from anchorfl.calibration import calibration_error, fit_temperature
from anchorfl.data.dataset import ImageStore
from anchorfl.devices import images_at_once, synchronise
from anchorfl.fusion import Fusion, Head, ServerView, stacked
from anchorfl.tensors import Tensors
from anchorfl.training import Trainer
from anchorfl.upload import Upload


@dataclass(frozen=True)
class Evaluation:
    """The true classes of N images, every fusion's scores, and what each client names on its own."""

    labels: Tensor
    scores: dict[str, Tensor]
    local: dict[int, Tensor]

    @cached_property
    def fused(self) -> dict[str, Tensor]:
        """The class that each fusion names."""
        return {name: scores.argmax(dim=1) for name, scores in self.scores.items()}

    def confusions(self) -> dict[str, Tensor]:
        """Counts by fusion, true class x named class."""
        return {name: self.confusion(named) for name, named in self.fused.items()}

    def confusion(self, named: Tensor) -> Tensor:
        classes = next(iter(self.scores.values())).shape[1]
        cells = torch.bincount(self.labels * classes + named, minlength=classes**2)
        return cells.view(classes, classes).double()

    def temperatures(self) -> dict[str, float]:
        """Those that make the most of these images' labels."""
        return {name: fit_temperature(scores, self.labels) for name, scores in self.scores.items()}

    def calibration_errors(self, temperatures: Mapping[str, float]) -> dict[str, float]:
        return {
            name: calibration_error((scores / temperatures[name]).softmax(dim=1), self.labels)
            for name, scores in self.scores.items()
        }

    def share_right(self, named: Tensor) -> float:
        return float((named == self.labels).double().mean())

    def accuracy(self) -> dict[str, float]:
        return {name: self.share_right(named) for name, named in self.fused.items()}

    def local_accuracy(self, clients: int) -> list[float | None]:
        """By client number; None for one that sent nothing."""
        return [
            self.share_right(self.local[client]) if client in self.local else None
            for client in range(clients)
        ]


def balanced_accuracy(confusion: Tensor) -> float:
    """Mean recall over the classes that occur."""
    totals = confusion.sum(dim=1)
    recall = confusion.diagonal()[totals > 0] / totals[totals > 0]
    return float(recall.mean())


def macro_f1(confusion: Tensor) -> float:
    """Mean over the classes that occur of 2 tp / (2 tp + fp + fn)."""
    totals = confusion.sum(dim=1)
    scores = 2 * confusion.diagonal() / (totals + confusion.sum(dim=0)).clamp(min=1)
    return float(scores[totals > 0].mean())


@dataclass(frozen=True)
class Fused:
    """A fusion of some uploads, ready to score, and how long the server took to make it."""

    encoders: list[Tensors]
    head: Head
    seconds: float


@torch.no_grad()
def fuse(trainer: Trainer, fusion: Fusion, uploads: Sequence[Upload]) -> Fused:
    trainer.network.eval()
    started = time.perf_counter()
    view = ServerView(trainer.config, trainer.shape, trainer.device, trainer.encode)
    encoders = fusion.encoders(uploads)
    head = fusion.head(uploads, encoders, view)
    synchronise(trainer.device)
    return Fused(encoders, head, time.perf_counter() - started)


@torch.no_grad()
def evaluate(
    trainer: Trainer,
    fusions: Mapping[str, Fused],
    uploads: Sequence[Upload],
    store: ImageStore,
    index: Tensor | None = None,
) -> Evaluation:
    """What all fusions and all clients name the images of a store (or some of them)."""
    trainer.network.eval()
    distinct: dict[int, Tensors] = {id(upload.weights): upload.weights for upload in uploads}
    distinct |= {id(weights): weights for each in fusions.values() for weights in each.encoders}
    scores: dict[str, list[Tensor]] = {name: [] for name in fusions}
    local: dict[int, list[Tensor]] = {upload.client: [] for upload in uploads}
    labels = []
    everything = torch.arange(len(store.labels)) if index is None else index
    parts = -(-len(everything) // images_at_once(trainer.device, store.pixels))
    for part in everything.to(store.index_device).tensor_split(parts):
        images, own_labels = store.take(part)
        images = images.float() / 255
        features = {key: trainer.encode(weights, images) for key, weights in distinct.items()}
        for name, each in fusions.items():
            own = stacked([features[id(weights)] for weights in each.encoders], images)
            scores[name].append(each.head(own, images))
        for upload in uploads:
            alone = features[id(upload.weights)] @ upload.prototypes.T
            local[upload.client].append(alone.argmax(dim=1))
        labels.append(own_labels)
    return Evaluation(
        torch.cat(labels).cpu(),
        {name: torch.cat(parts).float().cpu() for name, parts in scores.items()},
        {client: torch.cat(named).cpu() for client, named in local.items()},
    )
