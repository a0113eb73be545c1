"""What comes up from a client: its weights and prototypes, and the statistics that fusions need."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property

import torch
from torch import Tensor

from anchorfl.errors import UserError
from anchorfl.tensors import Tensors, prefixed, section
from anchorfl.wire.codec import pack, unpack


def lacks(statistic: str) -> str:
    """What to answer where uploads were made without a statistic."""
    return f"these uploads contain no {statistic.replace('_', ' ')}"


@dataclass(frozen=True)
class Upload:
    """`trained` is what training may have changed: parameters, prototypes among them, and buffers.

    `class_counts` are the client's samples by class, of small classes too. `statistics` are those that
    the run's fusions need, by name (`class_means/mean`). `frozen` is the rest of the network: everybody
    has it from the task, so it does not travel.
    """

    client: int
    class_counts: Tensor
    trained: Tensors
    statistics: Tensors = field(default_factory=dict)
    frozen: Tensors = field(default_factory=dict)

    @cached_property
    def weights(self) -> Tensors:
        """The network's whole state."""
        return {**self.frozen, **self.trained} if self.frozen else self.trained

    @property
    def samples(self) -> int:
        return int(self.class_counts.sum())

    @property
    def prototypes(self) -> Tensor:
        return self.trained["prototypes"]

    def contains(self, statistic: str) -> bool:
        return bool(section(self.statistics, statistic))

    def statistic(self, name: str) -> Tensors:
        """A statistic's tensors."""
        if not self.contains(name):
            raise UserError(lacks(name))
        return section(self.statistics, name)

    def to_bytes(self) -> bytes:
        tensors = {"class_counts": self.class_counts}
        tensors |= {**prefixed("weights", self.trained), **prefixed("statistics", self.statistics)}
        return pack("upload", {"client": self.client}, tensors)

    @staticmethod
    def from_bytes(data: bytes) -> Upload:
        """An upload of this format, or of format 2, which wrote `told` for `statistics`."""
        content, tensors = unpack("upload", data)
        trained = section(tensors, "weights")
        client = content.get("client")
        if not isinstance(client, int) or "class_counts" not in tensors or "prototypes" not in trained:
            raise UserError("this upload names no client, or contains no class counts or no prototypes")
        statistics = {**section(tensors, "told"), **section(tensors, "statistics")}
        return Upload(client, tensors["class_counts"], trained, statistics)


def complete(uploads: Iterable[Upload], frozen: Tensors, device: torch.device) -> list[Upload]:
    """Uploads on a device, with the frozen part of the network that they leave out."""

    def here(tensors: Tensors) -> Tensors:
        return {name: value.to(device) for name, value in tensors.items()}

    shared = here(frozen)
    return [
        replace(each, trained=here(each.trained), statistics=here(each.statistics), frozen=shared)
        for each in uploads
    ]


def frozen_to_bytes(frozen: Tensors) -> bytes:
    """The part of the network that no upload contains, to be kept beside the uploads."""
    return pack("frozen", {}, frozen)


def frozen_from_bytes(data: bytes) -> Tensors:
    return unpack("frozen", data)[1]
