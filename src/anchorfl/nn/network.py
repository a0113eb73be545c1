"""The network that clients train: an encoder, and the prototypes beside it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import torch
import torch.nn.functional as F
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from anchorfl.data import ImageFacts, Shape
from anchorfl.errors import UserError, in_one_line
from anchorfl.nn.batchnorm import adopt_batchnorm, batchnorms
from anchorfl.nn.encoders import ENCODERS
from anchorfl.randomness import generator, seeded
from anchorfl.registry import imported
from anchorfl.tensors import Tensors, section


class Look(NamedTuple):
    """How a trained encoder is shown an image: the middle of its sides, and mirrored as well or not."""

    zoom: float = 1.0
    mirrored: bool = False


PLAINLY = Look()


class Network(nn.Module):
    """Images in 0..1 -> features, L2-normalised or raw; holds the learnable prototypes beside them."""

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

    def frozen_parts(self) -> list[nn.Module]:
        """What training leaves alone: the encoder, or those of its BatchNorms that learn nothing."""
        if not any(value.requires_grad for value in self.encoder.parameters()):
            return [self.encoder]
        return [
            norm
            for norm in batchnorms(self.encoder).values()
            if norm.weight is not None and not norm.weight.requires_grad
        ]

    def frozen_names(self) -> set[str]:
        """Parameters and buffers that training never changes; with a frozen encoder, all but one."""
        frozen = {name for name, value in self.named_parameters() if not value.requires_grad}
        parts = self.frozen_parts()
        if parts == [self.encoder]:
            return self.state_dict().keys() - {"prototypes"}
        names = {id(module): name for name, module in self.named_modules()}
        for part in parts:
            frozen |= {f"{names[id(part)]}.{key}" for key in part.state_dict()}
        return frozen

    def forward(self, images: Tensor, normalise: bool = True) -> Tensor:
        features = self.encoder((images - self.mean) / self.std)
        wide = torch.promote_types(features.dtype, torch.float32)
        features = features.flatten(1).to(wide)
        return F.normalize(features, dim=1) if normalise else features


def build_network(
    name: str, facts: ImageFacts, seed: int, weights: str | None = None, freeze: bool = False
) -> Network:
    """The network every client starts from: weights and unit-normal prototypes from the seed."""
    with seeded(seed, "weights"):
        encoder = build_encoder(name, facts.shape)
    if weights is not None:
        load_encoder(encoder, Path(weights))
    if freeze:
        encoder.requires_grad_(False)
    dimension = feature_dimension(encoder, facts.shape, name)
    draw = torch.randn(facts.classes, dimension, generator=generator(seed, "prototypes"))
    return Network(encoder, draw, facts)


def feature_dimension(encoder: nn.Module, shape: Shape, name: str) -> int:
    """Found by encoding two blank images."""
    training = encoder.training
    encoder.eval()
    try:
        with torch.no_grad():
            features = encoder(torch.zeros(2, *shape))
    except Exception as error:  # a user's own code can raise anything
        why = in_one_line(error)
        raise UserError(f"model.name={name}: fails on images of shape {shape}: {why}") from None
    encoder.train(training)
    rows = features if isinstance(features, Tensor) and features.dim() > 1 else torch.empty(0, 0)
    if len(rows) != 2 or not rows.numel():
        raise UserError(f"model.name={name}: must turn N images into an N x d tensor of features")
    return rows.flatten(1).shape[1]


def build_encoder(name: str, shape: Shape) -> nn.Module:
    """A registered encoder, or `FILE.py:NAME` / `package.module:NAME`: NAME(shape) -> nn.Module."""
    factory = imported(name, "model.name") if ":" in name else ENCODERS.get(name, "model.name")
    try:
        encoder = factory(shape)
    except Exception as error:  # a user's own code can raise anything
        why = in_one_line(error)
        raise UserError(f"model.name={name}: fails when called with {shape}: {why}") from None
    if not isinstance(encoder, nn.Module):
        raise UserError(f"model.name={name}: returned {type(encoder).__name__}, not an nn.Module")
    return adopt_batchnorm(encoder)


def public_name(name: str) -> str:
    """How messages name an encoder: code of one's own by its last word, never by its place."""
    return f"code:{name.rpartition(':')[2]}" if ":" in name else name


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


def shown(
    encoded: Callable[[Tensor, bool], Tensor], images: Tensor, normalise: bool, look: Look
) -> Tensor:
    """Features of the middle of each image, the mean with those of its mirror image where so wanted.

    Views in training are enlarged pieces, so an encoder knows things larger than they are in a whole
    image (Touvron et al., 2019).
    """
    height, width = images.shape[2:]
    above, left = (min(round(side * (1 - look.zoom) / 2), (side - 1) // 2) for side in (height, width))
    if above or left:
        middle = images[:, :, above : height - above, left : width - left]
        images = F.interpolate(middle, size=(height, width), mode="bilinear", align_corners=False)
    if not look.mirrored:
        return encoded(images, normalise)
    features = (encoded(images, False) + encoded(images.flip(3), False)) / 2
    return F.normalize(features, dim=1) if normalise else features
