"""Encoders (images -> features) by name or path, and the network that clients train."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from anchorfl.errors import UserError
from anchorfl.normalisation import BatchNorm, adopt_batchnorm
from anchorfl.randomness import generator, seeded
from anchorfl.registry import Registry
from anchorfl.tensors import Tensors, section

Shape = tuple[int, int, int]
EncoderFactory = Callable[[Shape], nn.Module]
ENCODERS: Registry[EncoderFactory] = Registry("model", __name__)


@dataclass(frozen=True)
class ImageFacts:
    """What a network must know of its data: the shape and normalisation of images, the classes."""

    shape: Shape
    classes: int
    mean: tuple[float, ...]
    std: tuple[float, ...]

    @staticmethod
    def from_json(facts: dict[str, Any]) -> ImageFacts:
        """The opposite of dataclasses.asdict, after JSON made lists of the tuples."""
        channels, height, width = facts["shape"]
        mean, std = tuple(facts["mean"]), tuple(facts["std"])
        return ImageFacts((channels, height, width), facts["classes"], mean, std)


class Network(nn.Module):
    """Images in 0..1 -> L2-normalised features; holds the learnable class prototypes beside them."""

    mean: Tensor
    std: Tensor

    def __init__(self, encoder: nn.Module, prototypes: Tensor, facts: ImageFacts) -> None:
        super().__init__()
        self.encoder = encoder
        self.prototypes = nn.Parameter(prototypes)
        self.register_buffer("mean", torch.tensor(facts.mean).view(1, -1, 1, 1))
        self.register_buffer("std", torch.tensor(facts.std).view(1, -1, 1, 1))

    def fill(self, weights: Tensors) -> Network:
        """Take over all parameters and buffers."""
        self.check(weights)
        self.load_state_dict(weights, strict=False)
        return self

    def check(self, weights: Tensors) -> None:
        """Refuse weights of another model; a weight under two names is needed under one."""
        every = {name for name, _ in self.named_parameters(remove_duplicate=False)}
        aliases = every - {name for name, _ in self.named_parameters()}
        unfitting = (self.state_dict().keys() - aliases) ^ (weights.keys() - aliases)
        if unfitting:
            raise UserError(f"weights do not fit the model: {', '.join(sorted(unfitting))}")

    def forward(self, images: Tensor) -> Tensor:
        features = self.encoder((images - self.mean) / self.std)
        wide = torch.promote_types(features.dtype, torch.float32)
        return F.normalize(features.flatten(1).to(wide), dim=1)


def build_network(name: str, facts: ImageFacts, seed: int, weights: str | None = None) -> Network:
    """The network every client starts from: weights and unit-normal prototypes from the seed."""
    with seeded(seed, "weights"):
        encoder = build_encoder(name, facts.shape)
    if weights is not None:
        load_encoder(encoder, Path(weights))
    dimension = feature_dimension(encoder, facts.shape, name)
    draw = torch.randn(facts.classes, dimension, generator=generator(seed, "prototypes"))
    return Network(encoder, draw, facts)


def build_encoder(name: str, shape: Shape) -> nn.Module:
    """A registered encoder, or `FILE.py:NAME` / `package.module:NAME`: NAME(shape) -> nn.Module."""
    factory = imported(name) if ":" in name else ENCODERS.get(name)
    try:
        encoder = factory(shape)
    except Exception as error:  # a user's own code can raise anything
        raise UserError(f"model.name={name}: fails when called with {shape}: {told(error)}") from None
    if not isinstance(encoder, nn.Module):
        raise UserError(f"model.name={name}: gave a {type(encoder).__name__}, not an nn.Module")
    return adopt_batchnorm(encoder)


def imported(name: str) -> EncoderFactory:
    """The attribute that `FILE.py:NAME` or `package.module:NAME` points at."""
    place, _, attribute = name.rpartition(":")
    try:
        if place.endswith(".py"):
            spec = importlib.util.spec_from_file_location(Path(place).stem, place)
            assert spec is not None
            assert spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
        else:
            module = importlib.import_module(place)
        factory: EncoderFactory = getattr(module, attribute)
    except Exception as error:  # a user's own code can raise anything
        raise UserError(f"model.name={name}: {told(error)}") from None
    return factory


def told(error: Exception) -> str:
    """An exception in one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}"


def load_encoder(encoder: nn.Module, path: Path) -> None:
    """Start from saved encoder weights, or those in a run's upload; names and shapes must fit."""
    try:
        saved = load_file(path)
        uploaded = section(saved, "weights")
        if uploaded:
            own = {name for name in uploaded if name.startswith("encoder.")}
            saved = {name.removeprefix("encoder."): uploaded[name] for name in own}
        counters = {name for name in saved if name.endswith("num_batches_tracked")}
        encoder.load_state_dict({name: saved[name] for name in saved if name not in counters})
    except (OSError, SafetensorError) as error:
        raise UserError(f"model.weights={path}: cannot be read as safetensors ({error})") from None
    except RuntimeError as error:
        first = str(error).splitlines()[-1].strip()
        raise UserError(f"model.weights={path}: does not fit the encoder ({first})") from None


def feature_dimension(encoder: nn.Module, shape: Shape, name: str) -> int:
    """Found by encoding two blank images."""
    training = encoder.training
    encoder.eval()
    try:
        with torch.no_grad():
            features = encoder(torch.zeros(2, *shape))
    except Exception as error:  # a user's own code can raise anything
        raise UserError(f"model.name={name}: fails on images of shape {shape}: {told(error)}") from None
    encoder.train(training)
    if (
        not isinstance(features, Tensor)
        or features.dim() < 2
        or len(features) != 2
        or not features.numel()
    ):
        raise UserError(f"model.name={name}: must turn N images into an N x d tensor of features")
    return features.flatten(1).shape[1]


class ResidualBlock(nn.Module):
    """Two 3x3 convolutions beside a shortcut (He et al., 2016, basic block)."""

    def __init__(self, entering: int, leaving: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(entering, leaving, 3, stride, padding=1, bias=False)
        self.norm1 = BatchNorm(leaving, rectify=True)
        self.conv2 = nn.Conv2d(leaving, leaving, 3, padding=1, bias=False)
        self.norm2 = BatchNorm(leaving, rectify=True)
        self.shortcut = nn.Sequential()
        if stride != 1 or entering != leaving:
            projection = nn.Conv2d(entering, leaving, 1, stride, bias=False)
            self.shortcut = nn.Sequential(projection, BatchNorm(leaving))

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.norm2(self.conv2(self.norm1(self.conv1(x))), self.shortcut(x))
        return out


class FirstConvolution(nn.Conv2d):
    """A convolution of few channels: a GPU multiplies eight at a time, so the rest are zeros."""

    def forward(self, x: Tensor) -> Tensor:
        if not x.is_cuda:
            return super().forward(x)
        padding = (0, 0, 0, 0, 0, -self.in_channels % 8)
        x, weight = F.pad(x, padding), F.pad(self.weight, padding)
        return F.conv2d(x, weight, self.bias, self.stride, self.padding)


class GlobalAverage(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.mean(dim=(2, 3))


@ENCODERS.register("resnet18")
def resnet18(shape: Shape) -> nn.Module:
    """ResNet-18 with a 3x3 stem and no pooling before the blocks, for small images; 512 features."""
    stages = [(64, 64, 1), (64, 128, 2), (128, 256, 2), (256, 512, 2)]
    layers: list[nn.Module] = [
        FirstConvolution(shape[0], 64, 3, padding=1, bias=False),
        BatchNorm(64, rectify=True),
    ]
    for entering, leaving, stride in stages:
        layers += [ResidualBlock(entering, leaving, stride), ResidualBlock(leaving, leaving, 1)]
    return nn.Sequential(*layers, GlobalAverage())


@ENCODERS.register("small-cnn")
def small_cnn(shape: Shape) -> nn.Module:
    """Three 3x3 convolutions with BatchNorm, for 8x8 and 28x28 images; 128 features."""
    layers: list[nn.Module] = []
    for entering, leaving, stride in [(shape[0], 32, 1), (32, 64, 2), (64, 128, 2)]:
        convolution = nn.Conv2d(entering, leaving, 3, stride, padding=1, bias=False)
        layers += [convolution, BatchNorm(leaving, rectify=True)]
    return nn.Sequential(*layers, GlobalAverage())
