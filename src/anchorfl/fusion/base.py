"""What a fusion is: which encoders it needs, and the head that scores their features."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from anchorfl.data import Shape
from anchorfl.describe import Describer, Sums, summed
from anchorfl.options import build
from anchorfl.registry import Registry
from anchorfl.tensors import Encoder, Encoders

if TYPE_CHECKING:
    from anchorfl.messages import Upload

Uploads: TypeAlias = "Sequence[Upload]"
MODULES = ("averages", "class_mean", "joint_ridge", "sketched", "zscore")
"""Where this package's own fusions are registered."""
PROTOTYPES = frozenset({"features", "prototypes"})
SKETCH = frozenset({"sketch"})
FEATURES_AND_SKETCH = frozenset({"features", "sketch"})


class Head(nn.Module, ABC):
    """Features of the fusion's encoders, K x N x d, and the images -> scores, N x C.

    Each encoder's features are L2-normalised, unless the head is one that takes them `raw`. A sample's
    scores depend on that sample alone (unless the fusion is transductive).
    """

    raw: ClassVar[bool] = False

    def __init__(self, **tensors: Tensor) -> None:
        """The tensors are buffers of these names."""
        super().__init__()
        for name, tensor in tensors.items():
            self.register_buffer(name, tensor)

    @abstractmethod
    def forward(self, features: Tensor, images: Tensor) -> Tensor: ...


def sketch_sums(uploads: Uploads) -> Sums:
    """Of all clients' descriptions together."""
    return Sums.of(summed(upload.statistic("sketch_moments") for upload in uploads))


@dataclass(frozen=True)
class ServerView:
    """What a server has beside the uploads: what it sent down, and a network to encode with.

    `anchors` are those that the method's clients align to, if any, for the first of its networks.
    `pictures` are synthetic, in 0..1: nobody's data, so an encoder that is sure of one is too sure.
    `sums` are those of the uploads' descriptions, which several fusions need.
    """

    seed: int
    shape: Shape
    device: torch.device
    encode: Callable[[Encoder, Tensor], Tensor]
    describer: Callable[[], Describer]
    pictures: Callable[[], Tensor]
    anchors: Callable[[], Tensor | None] = lambda: None
    sums: Callable[[Uploads], Sums] = sketch_sums


@dataclass(frozen=True)
class Fusion(ABC):
    """The fields of a subclass are its options, `fusion.NAME.FIELD` on the command line.

    `needs` names the statistics it needs in an upload beside weights and class counts. A fusion is
    `transductive` where a sample's scores depend on the others predicted with it: it can be evaluated
    and makes no predictor. `score_temperature` turns scores into probabilities where no held-out data
    give a better one. It `mixes` where uploads may be of different networks, because it adds neither
    their features nor their weights. `reads` states what its scores depend on (features, prototypes,
    sketch, parameters), by which a diagnosis separates a failed rule from failed encoders.
    """

    needs: ClassVar[tuple[str, ...]] = ()
    mixes: ClassVar[bool] = False
    transductive: ClassVar[bool] = False
    score_temperature: ClassVar[float] = 1.0
    reads: ClassVar[frozenset[str]] = frozenset({"features"})

    def encoders(self, uploads: Uploads) -> list[Encoder]:
        """Those to encode images with: by default every client's own, as uploaded."""
        return [upload.encoder for upload in uploads]

    @abstractmethod
    def head(self, uploads: Uploads, encoders: Encoders, view: ServerView) -> Head:
        """What scores the features of `encoders`, which are this fusion's own."""


FUSIONS: Registry[type[Fusion]] = Registry("fusion", *(f"anchorfl.fusion.{name}" for name in MODULES))


def built_fusions(chosen: Mapping[str, Mapping[str, object]]) -> dict[str, Fusion]:
    """Each fusion with its options, checked."""
    return {
        name: build(FUSIONS.get(name, "fusion"), options, f"fusion.{name}")
        for name, options in chosen.items()
    }


def stacked(features: Sequence[Tensor], images: Tensor) -> Tensor:
    """Features by encoder, K x N x d; 0 x N x 0 where a fusion asks no encoder."""
    return side_by_side(features) if features else images.new_empty(0, images.shape[0], 0)


def side_by_side(matrices: Sequence[Tensor]) -> Tensor:
    """Stacked; narrow ones are filled up with zeros, which change no product of two such rows."""
    widest = max(each.shape[1] for each in matrices)
    return torch.stack([F.pad(each, (0, widest - each.shape[1])) for each in matrices])
