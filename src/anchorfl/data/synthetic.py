"""Synthetic pictures: things that hide one another, of shapes, textures and light; nobody's data."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from anchorfl.data.facts import Shape
from anchorfl.randomness import generator

AT_ONCE = 2000
TEXTURES, TEXTURE_SIDE = 1024, 64
BEHIND, PARTS = 14, 8
"""Layers of a picture: leaves all over it, then the parts of one thing in front of them."""
HARMONICS = 5


@dataclass(frozen=True)
class Layer:
    """One shape per picture: N of everything. Lengths are shares of the picture's side.

    `corners` is the exponent of a superellipse (1 a diamond, 2 an ellipse, 8 nearly a rectangle);
    `waves` and `phases` (N x harmonics) let its radius swing around the centre.
    """

    x: Tensor
    y: Tensor
    radius: Tensor
    aspect: Tensor
    angle: Tensor
    corners: Tensor
    waves: Tensor
    phases: Tensor
    colours: Tensor
    texture: Tensor
    shade: Tensor
    edge: Tensor


def synthetic_pictures(count: int, shape: Shape, seed: int, device: torch.device) -> Tensor:
    """Bytes, count x channels x height x width; the same for the same count, shape and seed."""
    textures = make_textures(generator(seed, "textures")).to(device)
    draw = generator(seed, "pictures")
    sizes = [min(AT_ONCE, count - start) for start in range(0, count, AT_ONCE)]
    return torch.cat([some_pictures(size, shape, textures, draw).cpu() for size in sizes])


def some_pictures(count: int, shape: Shape, textures: Tensor, draw: torch.Generator) -> Tensor:
    channels, height, width = shape
    device = textures.device
    across = (torch.arange(width, device=device) + 0.5) / width
    down = (torch.arange(height, device=device) + 0.5) / height
    palette = draw_palette(count, channels, draw)
    pictures = torch.zeros(count, *shape, device=device)
    pixel = 1 / max(height, width)
    thing = torch.rand(count, 2, generator=draw) * 0.6 + 0.2
    own = draw_palette(count, channels, draw)
    for number in range(BEHIND + PARTS):
        if number < BEHIND:
            layer = draw_leaf(count, palette, pixel, draw, ground=number == 0)
        else:
            layer = draw_part(count, own, thing, pixel, draw)
        pictures = paint(pictures, layer, textures, down, across)
    light = torch.rand(count, 3, generator=draw).to(device)
    slope = light[:, :2] - 0.5
    rows = slope[:, 0, None, None, None] * (down[:, None] - 0.5)
    columns = slope[:, 1, None, None, None] * (across[None, :] - 0.5)
    level = 0.75 + 0.4 * light[:, 2, None, None, None]
    return (255 * (pictures * (level + rows + columns)).clamp(0, 1)).round().byte()


def draw_palette(count: int, channels: int, draw: torch.Generator) -> Tensor:
    """Three colours per picture, N x 3 x channels, more alike than three colours of any kind."""
    base = 0.15 + 0.7 * torch.rand(count, 1, 1, generator=draw)
    strength = 0.25 * torch.rand(count, 1, 1, generator=draw)
    tint = strength * torch.randn(count, 1, channels, generator=draw)
    each = 0.25 * torch.randn(count, 3, 1, generator=draw)
    own = 0.1 * torch.randn(count, 3, channels, generator=draw)
    return base + tint + each + own


def draw_layer(
    count: int, palette: Tensor, pixel: float, draw: torch.Generator, radius: Tensor, centre: Tensor
) -> Layer:
    def rand(*size: int) -> Tensor:
        return torch.rand(count, *size, generator=draw)

    swings = (rand() < 0.5).float()
    falling = 1 / torch.arange(2, HARMONICS + 2)
    channels = palette.shape[2]
    chosen = torch.randint(3, (count, 2), generator=draw)
    colours = palette.gather(1, chosen[:, :, None].expand(count, 2, channels))
    colours = colours + 0.08 * torch.randn(count, 2, channels, generator=draw)
    return Layer(
        x=centre[:, 0],
        y=centre[:, 1],
        radius=radius,
        aspect=(rand() * 2 - 1).mul(math.log(3.0)).exp().sqrt(),
        angle=rand() * math.pi,
        corners=2.0 ** (rand() * 3),
        waves=swings[:, None] * 0.9 * rand(HARMONICS) * rand(1) * falling,
        phases=rand(HARMONICS) * 2 * math.pi,
        colours=colours,
        texture=torch.randint(1 << 30, (count, 3), generator=draw),
        shade=(rand(2) - 0.5) * rand(1),
        edge=pixel * (0.5 + 2.5 * rand().square()),
    )


def draw_leaf(count: int, palette: Tensor, pixel: float, draw: torch.Generator, ground: bool) -> Layer:
    """Anywhere; radii fall as a power law, so that there are edges at all scales."""
    radius = 0.06 / (0.1 + 0.9 * torch.rand(count, generator=draw))
    centre = torch.rand(count, 2, generator=draw) * 1.4 - 0.2
    return draw_layer(count, palette, pixel, draw, radius * 0 + 4 if ground else radius, centre)


def draw_part(count: int, palette: Tensor, thing: Tensor, pixel: float, draw: torch.Generator) -> Layer:
    """A part of the thing in front: near its centre, in its colours."""
    radius = 0.05 + 0.2 * torch.rand(count, generator=draw).square()
    centre = thing + 0.12 * torch.randn(count, 2, generator=draw)
    return draw_layer(count, palette, pixel, draw, radius, centre)


def paint(pictures: Tensor, layer: Layer, textures: Tensor, down: Tensor, across: Tensor) -> Tensor:
    """The pictures with a layer in front: alpha of the shape, colour of its texture and shade."""
    layer = Layer(**{name: value.to(pictures.device) for name, value in vars(layer).items()})

    def wide(values: Tensor) -> Tensor:
        return values[:, None, None]

    x = across[None, None, :] - wide(layer.x)
    y = down[None, :, None] - wide(layer.y)
    cos, sin = wide(layer.angle.cos()), wide(layer.angle.sin())
    along = (cos * x + sin * y) / wide(layer.aspect)
    aside = (cos * y - sin * x) * wide(layer.aspect)
    power = wide(layer.corners)
    reach = (along.abs() ** power + aside.abs() ** power + 1e-12) ** (1 / power)
    turn = torch.atan2(aside, along)
    swing = torch.ones_like(reach)
    for number in range(HARMONICS):
        wave = torch.cos((number + 2) * turn + wide(layer.phases[:, number]))
        swing = swing + wide(layer.waves[:, number]) * wave
    inside = wide(layer.radius) * swing.clamp(min=0.1) - reach
    alpha = (inside / wide(layer.edge) + 0.5).clamp(0, 1)[:, None]
    surface = textured(textures, layer.texture, len(down), len(across))
    first, second = layer.colours.unbind(1)
    colour = first[:, :, None, None] + (second - first)[:, :, None, None] * surface[:, None]
    shade = (wide(layer.shade[:, 0]) * along + wide(layer.shade[:, 1]) * aside) / wide(layer.radius)
    return torch.lerp(pictures, (colour + shade[:, None].clamp(-0.5, 0.5)).clamp(0, 1), alpha)


def textured(textures: Tensor, chosen: Tensor, height: int, width: int) -> Tensor:
    """A window of a texture per picture, N x height x width; the texture wraps around."""
    which, top, left = chosen.unbind(1)
    rows = (top[:, None] + torch.arange(height, device=chosen.device)) % TEXTURE_SIDE
    columns = (left[:, None] + torch.arange(width, device=chosen.device)) % TEXTURE_SIDE
    return textures[(which % TEXTURES)[:, None, None], rows[:, :, None], columns[:, None, :]]


def make_textures(draw: torch.Generator) -> Tensor:
    """Noise of many spectra, TEXTURES x side x side in 0..1: plain, fine, coarse, striped, spotted.

    The amplitude at frequency f is |f|^-b, b from 0.5 to 3, for half of them in some directions more
    than in others; a tanh of random strength makes spots and stripes of waves.
    """
    side = TEXTURE_SIDE
    frequency = torch.fft.fftfreq(side)
    down, across = frequency[:, None], frequency[None, :]
    distance = (down.square() + across.square()).sqrt()
    angle = torch.atan2(down.expand(side, side), across.expand(side, side))
    fall = 0.5 + 2.5 * torch.rand(TEXTURES, 1, 1, generator=draw)
    direction = math.pi * torch.rand(TEXTURES, 1, 1, generator=draw)
    striped = torch.rand(TEXTURES, 1, 1, generator=draw) < 0.5
    sharp = 12 * striped * torch.rand(TEXTURES, 1, 1, generator=draw)
    across_stripes = (sharp * ((angle - direction).cos().square() - 1)).exp()
    amplitude = (distance + 1 / side) ** -fall * across_stripes
    amplitude[:, 0, 0] = 0
    noise = torch.fft.fft2(torch.randn(TEXTURES, side, side, generator=draw))
    waves = torch.fft.ifft2(noise * amplitude).real
    waves = waves / waves.std(dim=(1, 2), keepdim=True)
    strength = 0.5 + 4 * torch.rand(TEXTURES, 1, 1, generator=draw).square()
    flat = torch.rand(TEXTURES, 1, 1, generator=draw)
    return (0.5 + 0.5 * flat * torch.tanh(strength * waves)).clamp(0, 1)
