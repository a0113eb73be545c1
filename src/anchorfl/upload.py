"""What comes up from a client: its weights and prototypes, and what it says of its classes."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from anchorfl.errors import UserError
from anchorfl.tensors import Tensors, pack, prefixed, section, unpack


def unsaid(statement: str) -> str:
    """What to tell where uploads were made without a statement."""
    return f"these uploads hold no {statement.replace('_', ' ')}"


@dataclass(frozen=True)
class Upload:
    """`weights` is the network's whole state: parameters, prototypes among them, and buffers.

    `told` is what the run's fusions ask for besides, by statement and name (`class_means/mean`).
    """

    client: int
    class_counts: Tensor
    weights: Tensors
    told: Tensors = field(default_factory=dict)

    @property
    def samples(self) -> int:
        return int(self.class_counts.sum())

    @property
    def prototypes(self) -> Tensor:
        return self.weights["prototypes"]

    def has_said(self, statement: str) -> bool:
        return bool(section(self.told, statement))

    def said(self, statement: str) -> Tensors:
        """A statement's tensors."""
        if not self.has_said(statement):
            raise UserError(unsaid(statement))
        return section(self.told, statement)

    def on(self, device: torch.device) -> Upload:
        """The same, its tensors on a device."""
        weights = {name: value.to(device) for name, value in self.weights.items()}
        told = {name: value.to(device) for name, value in self.told.items()}
        return replace(self, weights=weights, told=told)

    def to_bytes(self) -> bytes:
        tensors = {"class_counts": self.class_counts}
        tensors |= {**prefixed("weights", self.weights), **prefixed("told", self.told)}
        return pack("upload", {"client": self.client}, tensors)

    @staticmethod
    def from_bytes(data: bytes) -> Upload:
        content, tensors = unpack("upload", data)
        weights = section(tensors, "weights")
        client = content.get("client")
        if not isinstance(client, int) or "class_counts" not in tensors or "prototypes" not in weights:
            raise UserError("this upload names no client, or holds no class counts or no prototypes")
        return Upload(client, tensors["class_counts"], weights, section(tensors, "told"))
