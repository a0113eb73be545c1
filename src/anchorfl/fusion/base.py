"""What a fusion is: which encoders it needs, and the head that scores their features."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from anchorfl.registry import Registry
from anchorfl.tensors import Tensors
from anchorfl.upload import Upload


class Head(nn.Module, ABC):
    """Features of the fusion's encoders, K x N x d and normalised -> scores, N x C.

    A sample's scores depend on that sample alone.
    """

    @abstractmethod
    def forward(self, features: Tensor) -> Tensor: ...


@dataclass(frozen=True)
class ServerView:
    """What a server has beside the uploads: the network to run them with, and the seed."""

    encode: Callable[[Tensors, Tensor], Tensor]
    shape: tuple[int, int, int]
    seed: int
    device: torch.device


@dataclass(frozen=True)
class Fusion(ABC):
    """The fields of a subclass are its options, `fusion.NAME.FIELD` on the command line.

    `needs` names what it wants in an upload beside weights and class counts: `class_means`, or
    `joint_moments`, which take a second exchange.
    """

    needs: ClassVar[tuple[str, ...]] = ()

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
