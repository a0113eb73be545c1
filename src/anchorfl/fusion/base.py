"""What a fusion is: which encoders it needs, and the head that scores their features."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from anchorfl.anchors import shared_anchors
from anchorfl.config import Config
from anchorfl.registry import Registry
from anchorfl.sketch import Sketch
from anchorfl.tensors import Tensors
from anchorfl.upload import Upload


class Head(nn.Module, ABC):
    """Features of the fusion's encoders, K x N x d and normalised, and the images -> scores, N x C.

    A sample's scores depend on that sample alone (unless the fusion is transductive).
    """

    @abstractmethod
    def forward(self, features: Tensor, images: Tensor) -> Tensor: ...


@dataclass(frozen=True)
class ServerView:
    """What a server has beside the uploads: the network to run them with, and what it sent down."""

    config: Config
    shape: tuple[int, int, int]
    device: torch.device
    encode: Callable[[Tensors, Tensor], Tensor]

    def sketch(self) -> Sketch:
        return Sketch.shared(self.config, self.shape).to(self.device)

    def anchors(self, prototypes: Tensor) -> Tensor | None:
        """Those for prototypes of this shape, where the method has any."""
        anchors = shared_anchors(self.config, prototypes)
        return None if anchors is None else anchors.to(self.device)


@dataclass(frozen=True)
class Fusion(ABC):
    """The fields of a subclass are its options, `fusion.NAME.FIELD` on the command line.

    `needs` names the statements it wants in an upload beside weights and class counts. A fusion is
    `transductive` where a sample's scores depend on the others predicted with it. `score_temperature`
    turns scores into probabilities where no held-out data say a better one.
    """

    needs: ClassVar[tuple[str, ...]] = ()
    transductive: ClassVar[bool] = False
    score_temperature: ClassVar[float] = 1.0

    def encoders(self, uploads: Sequence[Upload]) -> list[Tensors]:
        """The weights to encode images with: by default every client's own, as uploaded."""
        return [upload.weights for upload in uploads]

    @abstractmethod
    def head(self, uploads: Sequence[Upload], encoders: Sequence[Tensors], view: ServerView) -> Head:
        """What scores the features of `encoders`, which are this fusion's own."""


FUSIONS: Registry[type[Fusion]] = Registry("fusion", "anchorfl.fusion")


def size_weights(uploads: Sequence[Upload]) -> Tensor:
    """n_k / sum_k n_k, on the uploads' device."""
    sizes = torch.tensor([upload.samples for upload in uploads], dtype=torch.float32)
    return (sizes / sizes.sum()).to(uploads[0].prototypes.device)


def stacked(features: Sequence[Tensor], images: Tensor) -> Tensor:
    """Features by encoder, K x N x d; 0 x N x 0 where a fusion asks no encoder."""
    return torch.stack(list(features)) if features else images.new_empty(0, images.shape[0], 0)
