"""The fused model: an ordinary module, images in and scores out, that lives in one file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from anchorfl.data import ImageFacts, Shape
from anchorfl.describe import Describer
from anchorfl.errors import UserError
from anchorfl.files import write_whole
from anchorfl.fusion import Head, stacked
from anchorfl.messages import pack, unpack, written_digest
from anchorfl.model.familiarity import Familiarity
from anchorfl.model.heads import built_by, described, rebuilt, section_of
from anchorfl.nn import Look, Network, build_network, shown
from anchorfl.tensors import Tensors, section


@dataclass(frozen=True)
class Card:
    """What a model holds beside tensors: how to read it, what made it, on what terms.

    `models` names the network of each encoder, `student` that of one model in the place of all;
    `start` is the hash of what all sites started from, if anything. `zoom` and `mirrored` are how
    encoders are shown an image. `holdout` is the share of every site's images that nobody trained on,
    None where no site kept any.
    """

    models: list[str]
    facts: ImageFacts
    class_names: list[str]
    temperature: float
    method: str
    fusion: str
    student: str
    trained_on: str
    terms: str
    start: str | None = None
    zoom: float = 1.0
    mirrored: bool = False
    holdout: float | None = None

    def __post_init__(self) -> None:
        if self.holdout is not None and not 0 < self.holdout < 1:
            raise ValueError("holdout is no share")
        if not 0 < self.zoom <= 1:
            raise ValueError("zoom is no share")


class FusedModel(nn.Module):
    """Images as floats in 0..1, N x channels x height x width -> scores, N x C, in fp32.

    A sample gets the same scores alone and among others. `hash` names the file that it was saved in
    or loaded from.
    """

    hash: str | None = None

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

    def save(self, path: Path | str) -> None:
        """Everything that `load` needs, with no code and no pickle: tensors, and the card as JSON."""
        content = {"card": asdict(self.card), "head": described(self.head)}
        tensors = {name.replace(".", "/", 1): value for name, value in self.state_dict().items()}
        data = pack("model", content, tensors)
        write_whole(Path(path), data)
        self.hash = written_digest(data)

    @staticmethod
    def load(path: Path | str, code: Sequence[str] = ()) -> FusedModel:
        """Ready to predict; `code` are FILE.py:NAME of encoders that are the user's own."""
        path = Path(path)
        if not path.is_file():
            raise UserError(f"{path}: no such file")
        try:
            data = path.read_bytes()
            fused = FusedModel.made_of(*unpack("model", data), code)
            fused.hash = written_digest(data)
        except UserError as error:
            raise UserError(f"{path}: {error}") from None
        except (KeyError, TypeError, ValueError, AttributeError, RuntimeError):
            raise UserError(f"{path}: holds no model that can be read") from None
        return fused

    @staticmethod
    def made_of(content: dict[str, Any], tensors: Tensors, code: Sequence[str]) -> FusedModel:
        card = Card(**dict(content["card"], facts=ImageFacts.from_json(content["card"]["facts"])))
        weights = section(tensors, "encoders")
        encoders = [
            build_network(built_by(name, code), card.facts, 0).fill(section_of(weights, f"{number}."))
            for number, name in enumerate(card.models)
        ]
        head = rebuilt(content["head"], section(tensors, "head"), code)
        familiarity = section(tensors, "familiarity")
        known = Familiarity(**familiarity) if familiarity else None
        fused = FusedModel(encoders, head, card, known)
        fused.probabilities(torch.zeros(1, *fused.shape))
        fused.unfamiliarity(torch.zeros(1, *fused.shape))
        return fused

    @property
    def class_names(self) -> list[str]:
        return self.card.class_names

    @property
    def shape(self) -> Shape:
        return self.card.facts.shape

    def train(self, mode: bool = True) -> FusedModel:
        """A fused model is finished: it stays in evaluation mode."""
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

        None where the fusion does not describe images.
        """
        describer = describer_in(self.head)
        if self.familiarity is None or describer is None:
            return None
        found: Tensor = self.familiarity(describer(images.float()))
        return found


def describer_in(head: nn.Module) -> Describer | None:
    return next((part for part in head.modules() if isinstance(part, Describer)), None)
