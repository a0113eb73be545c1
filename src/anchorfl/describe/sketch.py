"""A fixed description of an image that nobody trained: the same on every site, biased to no class.

Encoders trained on one client's few classes know nothing of the others. Descriptions under one map
that all share can be added up over clients, exactly, however the labels are spread.
"""

from __future__ import annotations

from functools import cache, partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from anchorfl.compute import full_precision
from anchorfl.randomness import generator

SIDE = 32
GRID = 3
FILTERS_AT_ONCE = 16
PICTURES, DISCS, PATCHES = 500, 60, 100_000
CONTRAST, FLATTEST, WHITENING, THRESHOLD = 0.0125, 0.02, 0.1, 0.5


class Sketch(nn.Module):
    """Images in 0..1, N x channels x height x width -> N x (2 filters x 3 x 3) numbers of norm 1.

    Small patches, their contrast evened out, are compared with whitened patches of dead leaves; what
    passes a threshold, on either side, is averaged over a grid of 3 x 3 fields, and its root taken.
    Where a mirror image is of the same class (`data.flip`) both are described as one: the same numbers,
    twice the work. The form is that of single-layer networks with random patches (Coates, Lee and Ng,
    2011); patches of synthetic pictures in place of the data's keep it free of any data.
    """

    kernels: Tensor
    offsets: Tensor

    def __init__(
        self, shape: tuple[int, int, int], kernels: Tensor, offsets: Tensor, mirrored: bool
    ) -> None:
        super().__init__()
        self.size = sketched_size(shape)
        self.mirrored = mirrored
        self.patch = kernels.shape[-1]
        self.register_buffer("kernels", kernels)
        self.register_buffer("offsets", offsets)

    @staticmethod
    def drawn(shape: tuple[int, int, int], filters: int, seed: int, mirrored: bool) -> Sketch:
        """With filters by the seed."""
        patch = 6 if min(sketched_size(shape)) >= 16 else 3
        return Sketch(shape, *patch_filters(shape[0], patch, filters, seed), mirrored)

    @staticmethod
    def width_of(filters: int) -> int:
        """How many numbers describe an image."""
        return 2 * filters * GRID**2

    def forward(self, images: Tensor) -> Tensor:
        if images.shape[2:] != self.size:
            images = F.adaptive_avg_pool2d(images, self.size)
        fields = self.fields(images)
        if self.mirrored:
            fields = fields + self.fields(images.flip(3))
        return F.normalize(fields.flatten(1).sqrt(), dim=1)

    def fields(self, images: Tensor) -> Tensor:
        """N x 2 filters x 3 x 3: what passes the threshold on either side, averaged by field."""
        mean = F.avg_pool2d(images.mean(dim=1, keepdim=True), self.patch, stride=1)
        square = F.avg_pool2d(images.square().mean(dim=1, keepdim=True), self.patch, stride=1)
        scale = ((square - mean.square()).clamp(min=0) + CONTRAST**2).rsqrt()
        fields = []
        for start in range(0, len(self.kernels), FILTERS_AT_ONCE):
            kernels = self.kernels[start : start + FILTERS_AT_ONCE]
            offsets = self.offsets[start : start + FILTERS_AT_ONCE]
            with full_precision():
                response = F.conv2d(images, kernels)
            response = response * scale - offsets[:, None, None]
            for side in (response, -response):
                fields.append(F.adaptive_avg_pool2d(F.relu(side - THRESHOLD), GRID))
        return torch.cat(fields, dim=1)


def sketched_size(shape: tuple[int, int, int]) -> tuple[int, int]:
    """Height and width at which images are sketched: larger ones are reduced."""
    return min(shape[1], SIDE), min(shape[2], SIDE)


@cache
def patch_filters(channels: int, patch: int, filters: int, seed: int) -> tuple[Tensor, Tensor]:
    """Kernels k and offsets o such that k x - o is the product of the whitened patch x with a filter.

    Whitening is Z (x - m), Z = U (D + w)^-1/2 U' of the patches' covariance U D U'; a filter is a
    whitened patch of norm 1.
    """
    draw = generator(seed, "sketch")
    patches = F.unfold(dead_leaves(channels, draw), patch).transpose(1, 2).flatten(0, 1)
    patches = patches[torch.randperm(len(patches), generator=draw)[:PATCHES]]
    patches = patches[patches.std(dim=1) > FLATTEST]
    patches = patches - patches.mean(dim=1, keepdim=True)
    patches = patches / (patches.var(dim=1, correction=0, keepdim=True) + CONTRAST**2).sqrt()
    mean = patches.mean(dim=0)
    values, vectors = torch.linalg.eigh((patches - mean).T @ (patches - mean) / len(patches))
    whiten = vectors @ ((values.clamp(min=0) + WHITENING).rsqrt()[:, None] * vectors.T)
    chosen = F.normalize((patches[:filters] - mean) @ whiten, dim=1) @ whiten
    kernels = chosen - chosen.mean(dim=1, keepdim=True)  # a patch's own mean counts for nothing
    return kernels.view(filters, channels, patch, patch), chosen @ mean


def dead_leaves(channels: int, draw: torch.Generator) -> Tensor:
    """Pictures of discs that hide one another: like photographs, edges at all scales and no content.

    Radii follow a power law; the colours of a picture lie around one of its own.
    """
    rand, randn = partial(torch.rand, generator=draw), partial(torch.randn, generator=draw)
    pictures = torch.zeros(PICTURES, channels, SIDE, SIDE)
    ground = rand(PICTURES, channels)
    along = torch.arange(SIDE)
    for _ in range(DISCS):
        radius = 2 / (0.1 + 0.9 * rand(PICTURES))
        x, y = (rand(PICTURES) * (SIDE + 20) - 10 for _ in range(2))
        colour = ground + 0.35 * randn(PICTURES, 1) + 0.12 * randn(PICTURES, channels)
        across = (along - x[:, None]).square()[:, None, :] + (along - y[:, None]).square()[:, :, None]
        inside = (across < radius.square()[:, None, None])[:, None]
        pictures = torch.where(inside, colour.clamp(0, 1)[:, :, None, None], pictures)
    return pictures
