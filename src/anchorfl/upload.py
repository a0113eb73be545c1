"""What comes up from a client: its weights and prototypes, and how many samples of each class."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from anchorfl.errors import UserError
from anchorfl.tensors import Tensors, pack, prefixed, section, unpack


@dataclass(frozen=True)
class Upload:
    """`weights` is the network's whole state: parameters, prototypes among them, and buffers."""

    client: int
    class_counts: Tensor
    weights: Tensors

    @property
    def samples(self) -> int:
        return int(self.class_counts.sum())

    @property
    def prototypes(self) -> Tensor:
        return self.weights["prototypes"]

    def to_bytes(self) -> bytes:
        tensors = {"class_counts": self.class_counts, **prefixed("weights", self.weights)}
        return pack("upload", {"client": self.client}, tensors)

    @staticmethod
    def from_bytes(data: bytes) -> Upload:
        content, tensors = unpack("upload", data)
        weights = section(tensors, "weights")
        client = content.get("client")
        if not isinstance(client, int) or "class_counts" not in tensors or "prototypes" not in weights:
            raise UserError("this upload names no client, or holds no class counts or no prototypes")
        return Upload(client, tensors["class_counts"], weights)
