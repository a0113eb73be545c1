"""The fused predictor: an ordinary module, images in and scores out."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.func import functional_call

from anchorfl.config import Config
from anchorfl.data.catalog import DATASETS
from anchorfl.fusion import Head, ServerView, stacked
from anchorfl.models import ImageFacts, Network, build_network
from anchorfl.tensors import Tensors
from anchorfl.upload import Upload


@dataclass(frozen=True)
class Card:
    """What a predictor says of itself: how to read it, what made it, on what terms."""

    model: str
    facts: ImageFacts
    class_names: list[str]
    temperature: float
    method: str
    fusion: str
    trained_on: str
    terms: str


class Predictor(nn.Module):
    """Images as floats in 0..1, N x channels x height x width -> scores, N x C, in fp32.

    A sample gets the same scores alone and among others.
    """

    def __init__(self, encoders: Sequence[Network], head: Head, card: Card) -> None:
        super().__init__()
        self.encoders = nn.ModuleList(encoders)
        self.head = head
        self.card = card
        self.requires_grad_(False)
        self.eval()

    @property
    def class_names(self) -> list[str]:
        return self.card.class_names

    @property
    def shape(self) -> tuple[int, int, int]:
        return self.card.facts.shape

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
        features = stacked([encoder(images) for encoder in self.encoders], images)
        scores: Tensor = self.head(features, images)
        return scores

    def probabilities(self, images: Tensor) -> Tensor:
        """softmax(scores / t), t fitted on held-out data where the run had any."""
        scores: Tensor = self(images)
        return (scores / self.card.temperature).softmax(dim=1)


@torch.no_grad()
def build_predictor(
    config: Config,
    facts: ImageFacts,
    uploads: Sequence[Upload],
    class_names: Sequence[str],
    temperature: float | None = None,
) -> Predictor:
    """The primary fusion's predictor, on the CPU and in fp32, from what the clients sent."""
    skeleton = build_network(str(config.model.name), facts, config.seed).eval()

    def encode(weights: Tensors, images: Tensor) -> Tensor:
        features: Tensor = functional_call(skeleton, weights, (images,))
        return features

    uploads = [upload.on(torch.device("cpu")) for upload in uploads]
    name, fusion = next(iter(config.fusion.items()))
    weights = fusion.encoders(uploads)
    head = fusion.head(uploads, weights, ServerView(config, facts.shape, torch.device("cpu"), encode))
    card = Card(
        model=str(config.model.name),
        facts=facts,
        class_names=list(class_names),
        temperature=fusion.score_temperature if temperature is None else temperature,
        method=config.method,
        fusion=name,
        trained_on=config.data.name,
        terms=DATASETS.get(config.data.name).terms,
    )
    return Predictor([deepcopy(skeleton).fill(state) for state in weights], head, card)
