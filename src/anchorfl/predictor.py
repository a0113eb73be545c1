"""The fused predictor: an ordinary module, images in and scores out."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.func import functional_call

from anchorfl.config import Config
from anchorfl.fusion import Head, ServerView
from anchorfl.models import ImageFacts, Network, build_network
from anchorfl.tensors import Tensors
from anchorfl.upload import Upload


class Predictor(nn.Module):
    """Images as floats in 0..1, N x channels x height x width -> scores, N x C, in fp32.

    A sample gets the same scores alone and among others.
    """

    def __init__(
        self,
        encoders: Sequence[Network],
        head: Head,
        shape: tuple[int, int, int],
        class_names: Sequence[str],
    ) -> None:
        super().__init__()
        self.encoders = nn.ModuleList(encoders)
        self.head = head
        self.shape = shape
        self.class_names = list(class_names)
        self.requires_grad_(False)
        self.eval()

    def train(self, mode: bool = True) -> Predictor:
        """A predictor is finished: it stays in evaluation mode."""
        super().train(False)
        return self

    def forward(self, images: Tensor) -> Tensor:
        if not images.is_floating_point() or tuple(images.shape[1:]) != self.shape:
            raise ValueError(
                f"expected floats in 0..1 of shape N x {' x '.join(map(str, self.shape))},"
                f" got {images.dtype} of shape {' x '.join(map(str, images.shape))}"
            )
        images = images.float()
        features = torch.stack([encoder(images) for encoder in self.encoders])
        scores: Tensor = self.head(features)
        return scores


@torch.no_grad()
def build_predictor(
    config: Config, facts: ImageFacts, uploads: Sequence[Upload], class_names: Sequence[str]
) -> Predictor:
    """The primary fusion's predictor, on the CPU and in fp32, from what the clients sent."""
    skeleton = build_network(str(config.model.name), facts, config.seed).eval()

    def encode(weights: Tensors, images: Tensor) -> Tensor:
        features: Tensor = functional_call(skeleton, weights, (images,))
        return features

    def filled(weights: Tensors) -> Network:
        return deepcopy(skeleton).fill(weights)

    uploads = [
        replace(upload, weights={name: value.cpu() for name, value in upload.weights.items()})
        for upload in uploads
    ]
    fusion = next(iter(config.fusion.values()))
    weights = fusion.encoders(uploads)
    view = ServerView(encode, facts.shape, config.seed, torch.device("cpu"))
    head = fusion.head(uploads, weights, view)
    return Predictor([filled(state) for state in weights], head, facts.shape, class_names)
