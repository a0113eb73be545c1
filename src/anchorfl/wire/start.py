"""What all sites may start from: an encoder that saw nobody's data, and a description made of it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from anchorfl.config import Config
from anchorfl.data import ImageFacts, Shape
from anchorfl.describe import Describer, Sketch, Stages, in_single
from anchorfl.errors import UserError
from anchorfl.models import build_encoder, public_name
from anchorfl.tensors import Tensors, prefixed, section
from anchorfl.wire.codec import digest, pack, unpack


@dataclass(frozen=True)
class Start:
    """`encoder` names the network that `weights` are of; `basis` is D x the widest description,
    in 8 bits (in 16 up to format 3).

    `facts` hold the shape of the pictures it was made on and how it normalises; `card` is how it was
    made, for people: seed, pictures, steps. `whole` is the hash of the start that this was cut from.
    """

    encoder: str
    facts: ImageFacts
    weights: Tensors
    sketch: Tensors
    basis: Tensor
    card: Mapping[str, Any]
    whole: str = ""

    @cached_property
    def hash(self) -> str:
        return self.whole or digest(self.content(), self.tensors())

    def cut(self, width: int) -> Start:
        """The same start for descriptions of that many numbers, which is all that need travel."""
        if width >= self.basis.shape[1]:
            return self
        return replace(self, basis=self.basis[:, :width].contiguous(), whole=self.hash)

    def tensors(self) -> Tensors:
        return {
            **prefixed("encoder", self.weights),
            **prefixed("sketch", self.sketch),
            "basis": self.basis,
        }

    def content(self) -> dict[str, object]:
        """All but the tensors."""
        shape, mean, std = (list(each) for each in (self.facts.shape, self.facts.mean, self.facts.std))
        about = {"shape": shape, "mean": mean, "std": std, "classes": self.facts.classes}
        whole = {"whole": self.whole} if self.whole else {}
        return {"encoder": self.encoder, "facts": about, "card": dict(self.card), **whole}

    def to_bytes(self) -> bytes:
        return pack("start", self.content(), self.tensors())

    @staticmethod
    def from_bytes(data: bytes) -> Start:
        return Start.made_of(*unpack("start", data))

    @staticmethod
    def made_of(content: Any, tensors: Tensors) -> Start:
        """UserError where they are not a start's."""
        try:
            facts, sketch = ImageFacts.from_json(content["facts"]), section(tensors, "sketch")
            card = {str(name): value for name, value in dict(content["card"]).items()}
            weights, basis = section(tensors, "encoder"), tensors["basis"]
            whole = str(content.get("whole", ""))
            if whole and not re.fullmatch("[0-9a-f]{64}", whole):
                raise ValueError("whole")
            start = Start(str(content["encoder"]), facts, weights, sketch, basis, card, whole)
            start.check()
        except (KeyError, TypeError, ValueError, AttributeError):
            raise UserError("this start is incomplete") from None
        return start

    def check(self) -> None:
        """ValueError where the description cannot be made of these tensors."""
        kernels, offsets = self.sketch["kernels"], self.sketch["offsets"]
        if kernels.dim() != 4 or kernels.shape[1] != self.facts.shape[0]:
            raise ValueError("kernels")
        if offsets.shape != kernels.shape[:1] or self.basis.dim() != 2:
            raise ValueError("offsets")
        numbers = {**self.tensors(), "basis": in_single(self.basis)}
        if not all(value.isfinite().all() for value in numbers.values()):
            raise ValueError("numbers")

    def describer(self, shape: Shape, mirrored: bool, width: int, model: str) -> Describer:
        """The description of images of a shape; `model` is what builds the encoder here."""
        if public_name(model) != self.encoder:
            raise UserError(f"model.name={model}: the start's encoder is {self.encoder}")
        if shape[0] != self.facts.shape[0]:
            raise UserError(
                f"model.weights: the start is for images of {self.facts.shape[0]} channels,"
                f" not of {shape[0]}"
            )
        encoder = build_encoder(model, shape)
        try:
            encoder.load_state_dict(self.weights)
            stages = Stages(encoder, self.encoder, self.facts, shape, mirrored)
            sketch = Sketch(shape, self.sketch["kernels"], self.sketch["offsets"], mirrored)
            describer = Describer(sketch, stages, in_single(self.basis[:, :width]))
            with torch.no_grad():
                describer(torch.zeros(1, *shape))
        except RuntimeError as error:
            why = " ".join(str(error).split())[:200]
            raise UserError(f"this start does not fit images of {shape}: {why}") from None
        return describer


def describer_for(config: Config, facts: ImageFacts, start: Start | None) -> Describer:
    """What the sites of an experiment describe images by."""
    mirrored = bool(config.data.flip)
    if start is None:
        return Describer(Sketch.drawn(facts.shape, *config.sketch))
    return start.describer(facts.shape, mirrored, config.describe.width, config.model.names[0])


def described_width(config: Config, start: Start | None) -> int:
    """How many numbers describe an image."""
    if start is None:
        return Sketch.width_of(config.sketch.filters)
    return min(config.describe.width, start.basis.shape[1])


def read_start(path: Path) -> Start | None:
    """A start in a file; None where the file is something else, such as plain weights."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UserError(f"model.weights={path}: {error.strerror}") from None
    if b'"start"' not in data[: 8 + int.from_bytes(data[:8], "little")]:
        return None
    try:
        start = Start.from_bytes(data)
    except UserError as error:
        raise UserError(f"model.weights={path}: {error}") from None
    if start.whole:
        raise UserError(
            f"model.weights={path}: is what a task carries of a start; name the start itself"
        )
    return start
