"""Any number of fusions in one pass over the images, each encoder run once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from anchorfl.data.dataset import ImageStore
from anchorfl.devices import images_at_once
from anchorfl.fusion import Fusion, ServerView
from anchorfl.tensors import Tensors
from anchorfl.training import Trainer
from anchorfl.upload import Upload


@dataclass(frozen=True)
class Evaluation:
    """Confusion matrices (true class x predicted class) by fusion, and by client on its own."""

    fused: dict[str, Tensor]
    local: dict[int, Tensor]

    def accuracy(self) -> dict[str, float]:
        return {name: accuracy(matrix) for name, matrix in self.fused.items()}

    def local_accuracy(self, clients: int) -> list[float | None]:
        """By client number; None for one that sent nothing."""
        return [
            accuracy(self.local[client]) if client in self.local else None for client in range(clients)
        ]


def accuracy(confusion: Tensor) -> float:
    return float(confusion.diagonal().sum() / confusion.sum())


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


@torch.no_grad()
def evaluate(
    trainer: Trainer,
    fusions: Mapping[str, Fusion],
    uploads: Sequence[Upload],
    store: ImageStore,
    index: Tensor | None = None,
) -> Evaluation:
    """Confusion matrices of all fusions and all clients on the images of a store (or some of them)."""
    trainer.network.eval()
    channels, height, width = store.images.shape[1:]
    view = ServerView(trainer.encode, (channels, height, width), trainer.config.seed, trainer.device)
    encoders = {name: fusion.encoders(uploads) for name, fusion in fusions.items()}
    heads = {name: fusion.head(uploads, encoders[name], view) for name, fusion in fusions.items()}
    distinct: dict[int, Tensors] = {id(upload.weights): upload.weights for upload in uploads}
    distinct |= {id(weights): weights for group in encoders.values() for weights in group}
    classes = len(uploads[0].prototypes)
    counts = {name: Confusion(classes, trainer.device) for name in fusions}
    alone = {upload.client: Confusion(classes, trainer.device) for upload in uploads}
    everything = torch.arange(len(store.labels)) if index is None else index
    parts = -(-len(everything) // images_at_once(trainer.device))
    for part in everything.to(store.index_device).tensor_split(parts):
        images, labels = store.take(part)
        images = images.float() / 255
        features = {key: trainer.encode(weights, images) for key, weights in distinct.items()}
        for name, head in heads.items():
            own = torch.stack([features[id(weights)] for weights in encoders[name]])
            counts[name].add(labels, head(own))
        for upload in uploads:
            alone[upload.client].add(labels, features[id(upload.weights)] @ upload.prototypes.T)
    return Evaluation(
        {name: count.matrix() for name, count in counts.items()},
        {client: count.matrix() for client, count in alone.items()},
    )


class Confusion:
    """Counts on the device, read once at the end."""

    def __init__(self, classes: int, device: torch.device) -> None:
        self.classes = classes
        self.counts = torch.zeros(classes * classes, dtype=torch.int64, device=device)

    def add(self, labels: Tensor, scores: Tensor) -> None:
        cells = labels * self.classes + scores.argmax(dim=1)
        self.counts.index_add_(0, cells, torch.ones_like(cells))

    def matrix(self) -> Tensor:
        return self.counts.view(self.classes, self.classes).cpu().double()
