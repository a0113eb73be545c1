# mypy: ignore-errors
"""Crop, mirror, jitter and grey in one go: an image is read once and its view written once."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from anchorfl.compute.kernels import LUMA

RED, GREEN, BLUE = (tl.constexpr(share) for share in LUMA)


@triton.jit
def _luma(red, green, blue):
    return RED * red + GREEN * green + BLUE * blue


@triton.jit
def _sampled(image, left, top, right, bottom, x, y, mask, W: tl.constexpr):
    """Bilinear between four pixels; x and y are the shares of the right and the lower ones."""
    a = tl.load(image + top * W + left, mask=mask, other=0).to(tl.float32)
    b = tl.load(image + top * W + right, mask=mask, other=0).to(tl.float32)
    c = tl.load(image + bottom * W + left, mask=mask, other=0).to(tl.float32)
    d = tl.load(image + bottom * W + right, mask=mask, other=0).to(tl.float32)
    return ((a * (1 - x) + b * x) * (1 - y) + (c * (1 - x) + d * x) * y) / 255


@triton.jit
def _clamped(value):
    return tl.minimum(tl.maximum(value, 0.0), 1.0)


@triton.jit
def _turned(value, chroma, turned, offset: tl.constexpr):
    """Channel of the HSV form whose hue was turned: see data/augment.py."""
    position = turned + offset
    position = position - 6 * tl.floor(position / 6)
    return value - chroma * _clamped(tl.minimum(position, 4 - position))


@triton.jit
def _augment(
    images, draws, views, count, P: tl.constexpr, H: tl.constexpr, W: tl.constexpr, BLOCK: tl.constexpr
):
    """One program per view."""
    view = tl.program_id(0)
    draw = draws + view * P
    pixel = tl.arange(0, BLOCK)
    mask = pixel < H * W
    row, column = pixel // W, pixel % W
    width, height = tl.load(draw + 2), tl.load(draw + 3)
    sign = 1 - 2 * tl.load(draw + 4)
    across = ((2 * column + 1) / W - 1) * width * sign + 2 * tl.load(draw) + width - 1
    down = ((2 * row + 1) / H - 1) * height + 2 * tl.load(draw + 1) + height - 1
    x = tl.minimum(tl.maximum(((across + 1) * W - 1) / 2, 0.0), W - 1.0)
    y = tl.minimum(tl.maximum(((down + 1) * H - 1) / 2, 0.0), H - 1.0)
    left, top = tl.floor(x).to(tl.int32), tl.floor(y).to(tl.int32)
    right, bottom = tl.minimum(left + 1, W - 1), tl.minimum(top + 1, H - 1)
    x, y = x - left, y - top
    image = images + (view % count).to(tl.int64) * 3 * H * W
    red = _sampled(image, left, top, right, bottom, x, y, mask, W)
    green = _sampled(image + H * W, left, top, right, bottom, x, y, mask, W)
    blue = _sampled(image + 2 * H * W, left, top, right, bottom, x, y, mask, W)

    bright = 1 + tl.load(draw + 5)
    red, green, blue = _clamped(red * bright), _clamped(green * bright), _clamped(blue * bright)
    contrast = 1 + tl.load(draw + 6)
    level = tl.sum(tl.where(mask, _luma(red, green, blue), 0.0), 0) / (H * W)
    red = _clamped(level + (red - level) * contrast)
    green = _clamped(level + (green - level) * contrast)
    blue = _clamped(level + (blue - level) * contrast)
    saturation = 1 + tl.load(draw + 7)
    grey = _luma(red, green, blue)
    red = _clamped(grey + (red - grey) * saturation)
    green = _clamped(grey + (green - grey) * saturation)
    blue = _clamped(grey + (blue - grey) * saturation)
    value = tl.maximum(red, tl.maximum(green, blue))
    chroma = value - tl.minimum(red, tl.minimum(green, blue))
    safe = tl.where(chroma > 0, chroma, 1.0)
    not_red = tl.where(value == green, 2 + (blue - red) / safe, 4 + (red - green) / safe)
    hue = tl.where(value == red, (green - blue) / safe, not_red)
    turned = hue + 6 * tl.load(draw + 8)
    red = _turned(value, chroma, turned, 5)
    green = _turned(value, chroma, turned, 3)
    blue = _turned(value, chroma, turned, 1)
    share = tl.load(draw + 9)
    grey = _luma(red, green, blue)
    place = views + view.to(tl.int64) * 3 * H * W + pixel * 3
    tl.store(place, red + share * (grey - red), mask=mask)
    tl.store(place + 1, green + share * (grey - green), mask=mask)
    tl.store(place + 2, blue + share * (grey - blue), mask=mask)


def augment(images: Tensor, draws: Tensor) -> Tensor:
    """N uint8 RGB images and views x N rows of parameters -> views of floats, channels last."""
    count, channels, height, width = images.shape
    rows = draws.flatten(0, 1).contiguous()
    views = torch.empty(
        len(rows), channels, height, width, device=images.device, memory_format=torch.channels_last
    )
    block = triton.next_power_of_2(height * width)
    _augment[(len(rows),)](
        images, rows, views, count, P=rows.shape[1], H=height, W=width, BLOCK=block, num_warps=8
    )
    return views
