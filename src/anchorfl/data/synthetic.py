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
"""Layers of a picture: leaves all over it, then in front of them signs, or the parts of one thing."""
HARMONICS = 5
SIGNED = 0.5
"""Share of the pictures with signs in front."""
SIGNS, STROKES, POINTS = 3, 3, 20
"""Signs in a row, strokes of a sign, points along a stroke."""


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
    for number in range(BEHIND):
        layer = draw_leaf(count, palette, pixel, draw, ground=number == 0)
        pictures = paint(pictures, layer, textures, down, across)
    signed = round(count * SIGNED)
    written = write(pictures[:signed], draw_signs(signed, channels, pixel, draw), down, across)
    others = pictures[signed:]
    thing = torch.rand(len(others), 2, generator=draw) * 0.6 + 0.2
    own = draw_palette(len(others), channels, draw)
    for _ in range(PARTS):
        layer = draw_part(len(others), own, thing, pixel, draw)
        others = paint(others, layer, textures, down, across)
    order = torch.randperm(count, generator=draw).to(device)
    pictures = torch.cat([written, others])[order]
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


@dataclass(frozen=True)
class Signs:
    """Signs in a row, as on a house or a page: N of everything; points are the pen's way, N x P x 2."""

    points: Tensor
    pen: Tensor
    colours: Tensor
    edge: Tensor


def draw_signs(count: int, channels: int, pixel: float, draw: torch.Generator) -> Signs:
    """Strokes are straight or arcs; a stroke begins where the one before ended, or anywhere.

    A row has one size, pen and colour; it is lighter or darker than what lies behind.
    """

    def rand(*size: int) -> Tensor:
        return torch.rand(count, *size, generator=draw)

    heading = 2 * math.pi * rand(SIGNS, STROKES, 1)
    bend = 2 * math.pi * (rand(SIGNS, STROKES, 1) * 2 - 1) * (rand(SIGNS, STROKES, 1) < 0.6)
    along = torch.linspace(0, 1, POINTS)
    turned = heading + bend * along
    steps = torch.stack([turned.cos(), turned.sin()], dim=-1) * (0.4 + rand(SIGNS, STROKES, 1, 1))
    way = steps.cumsum(dim=3) / POINTS
    ends = torch.cat([torch.zeros_like(way[:, :, :1, 0]), way[:, :, :-1, -1].cumsum(dim=2)], dim=2)
    apart = 0.6 * (rand(SIGNS, STROKES, 2) - 0.5) * (rand(SIGNS, STROKES, 1) < 0.4)
    points = (way + (ends + apart)[:, :, :, None]).flatten(2, 3)
    lowest, highest = points.amin(dim=2, keepdim=True), points.amax(dim=2, keepdim=True)
    unit = (points - lowest) / (highest - lowest).clamp(min=0.15) - 0.5
    height = 0.35 + 0.55 * rand(1, 1)
    width = height * (0.35 + 0.45 * rand(1, 1))
    slant = 0.3 * (rand(1, 1) - 0.5)
    places = (torch.arange(SIGNS) - SIGNS // 2)[:, None] * width * (1.2 + 0.3 * rand(1, 1))
    x = places + width * (unit[..., 0] + slant * unit[..., 1]) + 0.5 + 0.15 * (rand(1, 1) - 0.5)
    y = height * unit[..., 1] + 0.5 + 0.15 * (rand(1, 1) - 0.5)
    level = (rand(1) < 0.5).float() * 2 - 1
    colours = 0.5 + level * (0.1 + 0.35 * rand(1)) + 0.12 * torch.randn(count, channels, generator=draw)
    pen = height[:, 0, 0] * (0.05 + 0.07 * rand())
    edge = pixel * (0.7 + 2.5 * rand().square())
    return Signs(torch.stack([x.flatten(1), y.flatten(1)], dim=2), pen, colours, edge)


def write(pictures: Tensor, signs: Signs, down: Tensor, across: Tensor) -> Tensor:
    """The pictures with signs in front: alpha by the distance to the nearest point of the pen's way."""
    signs = Signs(**{name: value.to(pictures.device) for name, value in vars(signs).items()})
    nearest = torch.full_like(pictures[:, 0], math.inf)
    for point in signs.points.unbind(1):
        gap = across[None, None, :] - point[:, 0, None, None]
        drop = down[None, :, None] - point[:, 1, None, None]
        nearest = torch.minimum(nearest, gap.square() + drop.square())
    inside = signs.pen[:, None, None] - nearest.sqrt()
    alpha = (inside / signs.edge[:, None, None] + 0.5).clamp(0, 1)[:, None]
    return torch.lerp(pictures, signs.colours[:, :, None, None].clamp(0, 1), alpha)


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
