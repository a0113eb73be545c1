"""What all sites describe an image by before anybody trains: a sketch, and a frozen start's stages."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from anchorfl.data import ImageFacts, Shape
from anchorfl.describe.moments import wide
from anchorfl.describe.sketch import Sketch

FIELDS = 3
"""A stage's map is averaged over a grid of 3 x 3 fields, as the sketch's is."""


class Stages(nn.Module):
    """A frozen encoder's maps, the last of every size: N x (3 x 3 x channels) numbers each, norm 1.

    `name` is the encoder's, `facts` hold how it normalises, `shape` is that of the images. Where a
    mirror image is of the same class both are described as one.
    """

    mean: Tensor
    std: Tensor

    def __init__(
        self, encoder: nn.Module, name: str, facts: ImageFacts, shape: Shape, mirrored: bool
    ) -> None:
        super().__init__()
        self.encoder = encoder.requires_grad_(False).eval()
        self.name, self.shape, self.mirrored = name, shape, mirrored
        self.register_buffer("mean", torch.tensor(facts.mean).view(1, -1, 1, 1))
        self.register_buffer("std", torch.tensor(facts.std).view(1, -1, 1, 1))

    def train(self, mode: bool = True) -> Stages:
        """A start stays as it is."""
        super().train(False)
        return self

    def forward(self, images: Tensor) -> list[Tensor]:
        fields = self.fields(images)
        if self.mirrored:
            fields = [a + b for a, b in zip(fields, self.fields(images.flip(3)), strict=True)]
        return [F.normalize(each.flatten(1), dim=1) for each in fields]

    def fields(self, images: Tensor) -> list[Tensor]:
        normalised = (images - self.mean) / self.std
        return [F.adaptive_avg_pool2d(each.float(), FIELDS) for each in maps(self.encoder, normalised)]


def maps(encoder: nn.Module, images: Tensor) -> Iterator[Tensor]:
    """Of an encoder's maps (N x channels x height x width), the last of every size, the finest first.

    An encoder of one's own may have a method `stages` that returns them; of any other that is not a
    plain sequence of layers, the features are the only map, 1 x 1.
    """
    own = getattr(encoder, "stages", None)
    if callable(own):
        yield from own(images)
        return
    if not isinstance(encoder, nn.Sequential):
        yield encoder(images).flatten(1)[:, :, None, None]
        return
    last: Tensor | None = None
    for layer in encoder:
        images = layer(images)
        if images.dim() != 4:
            break
        if last is not None and images.shape[2:] != last.shape[2:]:
            yield last
        last = images
    if last is not None:
        yield last


class Describer(nn.Module):
    """Images in 0..1 -> N x width rows, of norm 1 at most.

    The sketch and each stage weigh the same. A basis (all numbers x width, its columns orthonormal)
    squeezes them; without a start it is the sketch alone, as it is.
    """

    basis: Tensor | None

    def __init__(
        self, sketch: Sketch, stages: Stages | None = None, basis: Tensor | None = None
    ) -> None:
        super().__init__()
        self.sketch, self.stages = sketch, stages
        self.register_buffer("basis", basis)

    @property
    def principal(self) -> int:
        """How many of its numbers are principal components."""
        return 0 if self.basis is None else self.basis.shape[1]

    def forward(self, images: Tensor) -> Tensor:
        rows = self.everything(images)
        if self.stages is None:
            return rows
        assert self.basis is not None  # who describes by a start has both
        squeezed: Tensor = rows @ self.basis
        return squeezed

    def everything(self, images: Tensor) -> Tensor:
        """The rows before they are squeezed."""
        parts = [self.sketch(images), *(self.stages(images) if self.stages else ())]
        rows: Tensor = torch.cat(parts, dim=1) / math.sqrt(len(parts))
        return rows


def principal_basis(rows: Tensor, width: int) -> Tensor:
    """The directions in which rows are largest, D x width, the largest first.

    They are the eigenvectors of X'X. With fewer rows N than numbers D, X X' = U S^2 U' is the smaller
    matrix, and they are X' U / S.
    """
    rows = wide(rows)
    few = len(rows) < rows.shape[1]
    values, vectors = torch.linalg.eigh(rows @ rows.T if few else rows.T @ rows)
    values, vectors = values.flip(0)[:width], vectors.flip(1)[:, :width]
    kept = values > 1e-9 * values[0]
    basis: Tensor = vectors[:, kept]
    if few:
        basis = rows.T @ (basis * values[kept].rsqrt())
    return basis.float()
