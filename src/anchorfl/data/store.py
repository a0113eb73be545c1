"""A data set's images where they are trained on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from anchorfl.compute import send
from anchorfl.data.dataset import Split


class ImageStore:
    """One uint8 tensor of images on the training device where it fits, else on the host.

    A client is an index into it, kept on `index_device`; `take` hands a batch over on the training
    device either way, without waiting for it.
    """

    def __init__(self, split: Split, device: torch.device) -> None:
        self.device = device
        images, labels = torch.from_numpy(split.images), torch.from_numpy(split.labels)
        fits = device.type != "cuda" or images.nbytes < torch.cuda.mem_get_info(device)[0] // 2
        self.index_device = device if fits else torch.device("cpu")
        self.images, self.labels = images.to(self.index_device), labels.to(self.index_device)

    @property
    def pixels(self) -> int:
        height, width = self.images.shape[2:]
        return height * width

    def take(self, index: Tensor) -> tuple[Tensor, Tensor]:
        images, labels = self.images[index], self.labels[index]
        if self.index_device == self.device:
            return images, labels
        return send(images, self.device), send(labels, self.device)


@dataclass(frozen=True)
class Shard:
    """Some images of a store, by their places in it: what one site holds."""

    store: ImageStore
    index: Tensor

    @staticmethod
    def of(store: ImageStore, places: NDArray[np.int64]) -> Shard:
        return Shard(store, torch.from_numpy(places))

    @staticmethod
    def whole(split: Split, device: torch.device) -> Shard:
        return Shard(ImageStore(split, device), torch.arange(len(split)))

    def __len__(self) -> int:
        return len(self.index)

    def batches(self, count: int) -> Iterator[tuple[Tensor, Tensor]]:
        """All of its images and labels in so many near-equal parts."""
        for part in self.index.to(self.store.index_device).tensor_split(count):
            yield self.store.take(part)


def batch_count(samples: int, batch_size: int) -> int:
    """Near-equal batches: ceil(n/b) of them, fewer where one would hold a single sample."""
    return max(1, min(-(-samples // batch_size), samples // 2))
