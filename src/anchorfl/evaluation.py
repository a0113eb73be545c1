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
    """The true classes of N images, and those named by every fusion and every client on its own."""

    labels: Tensor
    classes: int
    fused: dict[str, Tensor]
    local: dict[int, Tensor]

    def confusions(self) -> dict[str, Tensor]:
        """Counts by fusion, true class x named class."""
        return {name: self.confusion(named) for name, named in self.fused.items()}

    def confusion(self, named: Tensor) -> Tensor:
        cells = torch.bincount(self.labels * self.classes + named, minlength=self.classes**2)
        return cells.view(self.classes, self.classes).double()

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


@torch.no_grad()
def evaluate(
    trainer: Trainer,
    fusions: Mapping[str, Fusion],
    uploads: Sequence[Upload],
    store: ImageStore,
    index: Tensor | None = None,
) -> Evaluation:
    """What all fusions and all clients name the images of a store (or some of them)."""
    trainer.network.eval()
    channels, height, width = store.images.shape[1:]
    view = ServerView(trainer.encode, (channels, height, width), trainer.config.seed, trainer.device)
    encoders = {name: fusion.encoders(uploads) for name, fusion in fusions.items()}
    heads = {name: fusion.head(uploads, encoders[name], view) for name, fusion in fusions.items()}
    distinct: dict[int, Tensors] = {id(upload.weights): upload.weights for upload in uploads}
    distinct |= {id(weights): weights for group in encoders.values() for weights in group}
    fused: dict[str, list[Tensor]] = {name: [] for name in fusions}
    local: dict[int, list[Tensor]] = {upload.client: [] for upload in uploads}
    labels = []
    everything = torch.arange(len(store.labels)) if index is None else index
    parts = -(-len(everything) // images_at_once(trainer.device, height * width))
    for part in everything.to(store.index_device).tensor_split(parts):
        images, own_labels = store.take(part)
        images = images.float() / 255
        features = {key: trainer.encode(weights, images) for key, weights in distinct.items()}
        for name, head in heads.items():
            own = torch.stack([features[id(weights)] for weights in encoders[name]])
            fused[name].append(head(own).argmax(dim=1))
        for upload in uploads:
            scores = features[id(upload.weights)] @ upload.prototypes.T
            local[upload.client].append(scores.argmax(dim=1))
        labels.append(own_labels)
    return Evaluation(
        torch.cat(labels).cpu(),
        len(uploads[0].prototypes),
        {name: torch.cat(named).cpu() for name, named in fused.items()},
        {client: torch.cat(named).cpu() for client, named in local.items()},
    )
