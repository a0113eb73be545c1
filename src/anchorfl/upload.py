"""What comes up from a client: its weights and prototypes, and what it says of its classes."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from anchorfl.errors import UserError
from anchorfl.tensors import Tensors, pack, prefixed, section, unpack


@dataclass(frozen=True)
class Upload:
    """`weights` is the network's whole state: parameters, prototypes among them, and buffers.

    `class_means` (C x d) are means of normalised features, a row of zeros for a class that the client
    does not hold or holds too few samples of to tell. `joint_moments` are what the second exchange
    brings: X'[X Y] of the client's samples under everybody's encoders. None where no fusion asks.
    """

    client: int
    class_counts: Tensor
    weights: Tensors
    class_means: Tensor | None = None
    joint_moments: Tensor | None = None

    @property
    def samples(self) -> int:
        return int(self.class_counts.sum())

    @property
    def prototypes(self) -> Tensor:
        return self.weights["prototypes"]

    def to_bytes(self) -> bytes:
        tensors = {"class_counts": self.class_counts, **prefixed("weights", self.weights)}
        optional = {"class_means": self.class_means, "joint_moments": self.joint_moments}
        tensors |= {name: value for name, value in optional.items() if value is not None}
        return pack("upload", {"client": self.client}, tensors)

    @staticmethod
    def from_bytes(data: bytes) -> Upload:
        content, tensors = unpack("upload", data)
        weights = section(tensors, "weights")
        client = content.get("client")
        if not isinstance(client, int) or "class_counts" not in tensors or "prototypes" not in weights:
            raise UserError("this upload names no client, or holds no class counts or no prototypes")
        told = (tensors.get(name) for name in ("class_means", "joint_moments"))
        return Upload(client, tensors["class_counts"], weights, *told)
