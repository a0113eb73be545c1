"""The network that clients train: an encoder, and the prototypes beside it."""

from __future__ import annotations

from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from anchorfl.data import ImageFacts, Shape
from anchorfl.errors import UserError, in_one_line
from anchorfl.models.batchnorm import batchnorms
from anchorfl.models.custom import build_encoder, load_encoder
from anchorfl.randomness import generator, seeded
from anchorfl.tensors import Tensors


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
    if (
        not isinstance(features, Tensor)
        or features.dim() < 2
        or len(features) != 2
        or not features.numel()
    ):
        raise UserError(f"model.name={name}: must turn N images into an N x d tensor of features")
    return features.flatten(1).shape[1]
