"""Augmentation as draw + apply: parameters per sample on the host, images batched on the device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from anchorfl.compute import LUMA

LARGEST_FOR_KERNEL = 64 * 64


@dataclass(frozen=True)
class Augmentation:
    """What may happen to an image: the SimCLR recipe that FAFI publishes, by default.

    Crop an area share in `area` with an aspect ratio in `ratio`, resize it back, mirror, jitter the
    colours with strengths (brightness, contrast, saturation, hue), turn grey.
    """

    area: tuple[float, float] = (0.2, 1.0)
    ratio: tuple[float, float] = (3 / 4, 4 / 3)
    flip: float = 0.5
    jitter: tuple[float, float, float, float] = (0.4, 0.4, 0.4, 0.1)
    jitter_chance: float = 0.8
    grey_chance: float = 0.2

    def draw(self, count: int, generator: torch.Generator) -> Tensor:
        """One row of parameters per sample: crop x0 y0 width height, flip, four factors, grey.

        The crop is in shares of the image. Its area is uniform in `area`; the logarithm of its
        ratio is uniform over the part of `ratio` with which that area still fits.
        """
        chance = torch.rand(count, 11, generator=generator)
        area = self.area[0] + (self.area[1] - self.area[0]) * chance[:, 0]
        lowest = area.clamp(min=self.ratio[0]).log()
        highest = area.reciprocal().clamp(max=self.ratio[1]).log()
        ratio = (lowest + (highest - lowest) * chance[:, 1]).exp()
        width, height = (area * ratio).sqrt().clamp(max=1), (area / ratio).sqrt().clamp(max=1)
        x0, y0 = (1 - width) * chance[:, 2], (1 - height) * chance[:, 3]
        flip = (chance[:, 4] < self.flip).float()
        jittered = (chance[:, 5] < self.jitter_chance).float()[:, None]
        offsets = jittered * torch.tensor(self.jitter) * (2 * chance[:, 6:10] - 1)
        grey = (chance[:, 10] < self.grey_chance).float()
        crop = torch.stack([x0, y0, width, height, flip], dim=1)
        return torch.cat([crop, offsets, grey[:, None]], dim=1)

    def apply(self, images: Tensor, draws: Tensor, kernel: bool = False) -> Tensor:
        """N uint8 images, views x N rows of parameters -> views x N floats in 0..1, view by view.

        `kernel` lets a GPU do all of it in one kernel; the numbers are the same.
        """
        coloured = any(self.jitter) or self.grey_chance > 0
        if kernel and coloured and images.shape[2] * images.shape[3] <= LARGEST_FOR_KERNEL:
            from anchorfl.compute.kernels.augment import augment

            return augment(images, draws)
        rows = draws.flatten(0, 1)
        repeated = images.repeat([len(draws)] + [1] * (images.dim() - 1))
        cropped = crop_and_flip(repeated.to(rows.dtype) / 255, rows[:, :5])
        if not coloured:
            return cropped
        factors = rows[:, 5:].view(len(rows), -1, 1, 1, 1).unbind(1)
        return change_colours(cropped, *factors)


COLOURS_KEPT: dict[str, Any] = {"jitter": (0.0,) * 4, "jitter_chance": 0.0, "grey_chance": 0.0}
UNCHANGED = Augmentation(area=(1.0, 1.0), ratio=(1.0, 1.0), flip=0.0, **COLOURS_KEPT)
"""Nothing happens to an image."""


def augmentation_for(shape: tuple[int, int, int], flip: bool, crop: float) -> Augmentation:
    """The recipe for images of a shape: a view keeps a share `crop` at least, and grey stays grey."""
    colours = COLOURS_KEPT if shape[0] == 1 else {}
    return Augmentation(area=(crop, 1.0), flip=0.5 if flip else 0.0, **colours)


def crop_and_flip(images: Tensor, crop: Tensor) -> Tensor:
    """Sample each image's box (x0, y0, width, height as shares; mirrored or not) to full size."""
    x0, y0, width, height, flip = crop.unbind(1)
    sign = 1 - 2 * flip
    zero = torch.zeros_like(x0)
    horizontal = torch.stack([width * sign, zero, 2 * x0 + width - 1], dim=1)
    vertical = torch.stack([zero, height, 2 * y0 + height - 1], dim=1)
    theta = torch.stack([horizontal, vertical], dim=1)
    grid = F.affine_grid(theta, list(images.shape), align_corners=False)
    return F.grid_sample(images, grid, padding_mode="border", align_corners=False)


def change_colours(
    images: Tensor,
    brightness: Tensor,
    contrast: Tensor,
    saturation: Tensor,
    hue: Tensor,
    grey: Tensor,
) -> Tensor:
    """Brightness, contrast, saturation, hue in this order, then grey; offsets of 0 change nothing."""
    images = (images * (1 + brightness)).clamp(0, 1)
    level = luma(images).mean(dim=(1, 2, 3), keepdim=True)
    images = (level + (images - level) * (1 + contrast)).clamp(0, 1)
    images = torch.lerp(luma(images), images, 1 + saturation).clamp(0, 1)
    images = rotate_hue(images, hue)
    return torch.lerp(images, luma(images), grey)


def luma(images: Tensor) -> Tensor:
    red, green, blue = images.unbind(1)
    return (LUMA[0] * red + LUMA[1] * green + LUMA[2] * blue).unsqueeze(1)


def rotate_hue(images: Tensor, turn: Tensor) -> Tensor:
    """Turn the hue of the HSV form by a share of the circle.

    With v = max, c = max - min, h in 0..6: channel n of (5, 3, 1) is v - c clamp(min(k, 4-k), 0, 1),
    k = (n + h) mod 6.
    """
    red, green, blue = images.unbind(1)
    value = images.amax(dim=1)
    chroma = value - images.amin(dim=1)
    safe = torch.where(chroma > 0, chroma, torch.ones_like(chroma))
    hue = torch.where(
        value == red,
        (green - blue) / safe,
        torch.where(value == green, 2 + (blue - red) / safe, 4 + (red - green) / safe),
    )
    turned = hue[:, None] + 6 * turn
    offsets = torch.arange(5, 0, -2, device=images.device).view(1, 3, 1, 1)
    position = (turned + offsets).remainder(6)
    falls = torch.minimum(position, 4 - position).clamp(0, 1)
    return value[:, None] - chroma[:, None] * falls
