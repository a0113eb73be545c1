"""Looking inside a round: one client alone, as no deployed server could see it."""

from __future__ import annotations

import torch
from torch import Tensor

from anchorfl.compute import images_at_once
from anchorfl.data import ImageStore
from anchorfl.models import Runner
from anchorfl.tensors import Tensors, section


@torch.no_grad()
def accuracy_alone(
    runner: Runner, state: Tensors, store: ImageStore, index: Tensor | None = None
) -> float:
    """Of a client's state, by its own prototypes and running statistics, on a store's images."""
    runner.network.eval()
    weights = {**section(state, "weights"), **section(state, "buffers")}
    chosen = torch.arange(len(store.labels)) if index is None else index
    right = torch.zeros((), device=runner.device)
    parts = -(-len(chosen) // images_at_once(runner.device, store.pixels))
    for part in chosen.to(store.index_device).tensor_split(parts):
        images, labels = store.take(part)
        scores = runner.encode(weights, images.float() / 255) @ weights["prototypes"].T
        right += (scores.argmax(dim=1) == labels).sum()
    return float(right) / len(chosen)
