"""What all sites may start from: an encoder that saw nobody's data, and a description made of it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from torch import Tensor

from anchorfl.data import ImageFacts
from anchorfl.describe import in_single
from anchorfl.errors import UserError
from anchorfl.messages.codec import digest, kind_of, pack, unpack
from anchorfl.tensors import Tensors, prefixed, section


@dataclass(frozen=True)
class Start:
    """`encoder` names the network that `weights` are of; `basis`, in 8 bits, is D x the widest
    description.

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

    def network_weights(self) -> Tensors:
        """Its weights under the names that they have in a network."""
        return {f"encoder.{name}": value for name, value in self.weights.items()}

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


def read_start(path: Path) -> Start | None:
    """A start in a file; None where the file is something else, such as plain weights."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UserError(f"model.weights={path}: {error.strerror}") from None
    if kind_of(data) != "start":
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
