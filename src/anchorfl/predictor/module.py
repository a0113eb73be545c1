"""The fused predictor: an ordinary module, images in and scores out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from torch import Tensor, nn

from anchorfl.config import Look
from anchorfl.data import ImageFacts, Shape
from anchorfl.describe import Describer
from anchorfl.models import Network, shown
from anchorfl.predictor.familiarity import Familiarity
from anchorfl.server import Head, stacked


@dataclass(frozen=True)
class Card:
    """What a predictor holds beside tensors: how to read it, what made it, on what terms.

    `model` is what the experiment named, `models` the network of each encoder here, `start` the hash
    of what all sites started from, if anything. `zoom` and `mirrored` are how encoders are shown an
    image. `hash` names what was fused and how, `holdout` is the share of every site's images that
    nobody trained on; None where it is not known.
    """

    model: str
    facts: ImageFacts
    class_names: list[str]
    temperature: float
    method: str
    fusion: str
    trained_on: str
    terms: str
    models: list[str] = field(default_factory=list)
    start: str | None = None
    zoom: float = 1.0
    mirrored: bool = False
    hash: str | None = None
    holdout: float | None = None

    def __post_init__(self) -> None:
        if self.holdout is not None and not 0 < self.holdout < 1:
            raise ValueError("holdout is no share")
        if not 0 < self.zoom <= 1:
            raise ValueError("zoom is no share")


class Predictor(nn.Module):
    """Images as floats in 0..1, N x channels x height x width -> scores, N x C, in fp32.

    A sample gets the same scores alone and among others.
    """

    def __init__(
        self,
        encoders: Sequence[Network],
        head: Head,
        card: Card,
        familiarity: Familiarity | None = None,
    ) -> None:
        super().__init__()
        self.encoders = nn.ModuleList(encoders)
        self.head = head
        self.familiarity = familiarity
        self.card = card
        self.requires_grad_(False)
        self.eval()

    @property
    def class_names(self) -> list[str]:
        return self.card.class_names

    @property
    def shape(self) -> Shape:
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
        normalise = not self.head.raw
        features = stacked([self.encoded(each, images, normalise) for each in self.encoders], images)
        scores: Tensor = self.head(features, images)
        return scores

    def encoded(self, encoder: nn.Module, images: Tensor, normalise: bool) -> Tensor:
        return shown(encoder, images, normalise, Look(self.card.zoom, self.card.mirrored))

    def probabilities(self, images: Tensor) -> Tensor:
        """softmax(scores / t), t fitted on held-out data where the run had any."""
        scores: Tensor = self(images)
        return (scores / self.card.temperature).softmax(dim=1)

    def unfamiliarity(self, images: Tensor) -> Tensor | None:
        """N numbers, above 1 where a picture is unlike all sites' images.

        None where the fusion does not describe images, or the file is of an earlier version.
        """
        describer = describer_in(self.head)
        if self.familiarity is None or describer is None:
            return None
        found: Tensor = self.familiarity(describer(images.float()))
        return found


def describer_in(head: nn.Module) -> Describer | None:
    return next((part for part in head.modules() if isinstance(part, Describer)), None)
