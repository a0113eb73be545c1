"""What comes up from a site: its weights and prototypes, and the statistics that fusions need."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from anchorfl.describe import in_full
from anchorfl.errors import UserError
from anchorfl.events import ClientRound, as_record
from anchorfl.messages.codec import checked_name, pack, unpack
from anchorfl.tensors import Encoder, Tensors, prefixed, section


def lacks(statistic: str) -> str:
    """What to answer where uploads were made without a statistic."""
    return f"these uploads contain no {statistic.replace('_', ' ')}"


@dataclass(frozen=True)
class Upload:
    """`site` is the name of the place it comes from; a simulated client is called by its number.

    `trained` is what training may have changed: parameters, prototypes among them, and buffers. It is
    empty where the method trains nothing. `class_counts` are the site's samples by class, of small
    classes too. `statistics` are those that fusions need, by name (`class_means/mean`). `network` names
    the one that the weights are of, `task` is the hash of the task it answers. `frozen` is the rest of
    the network: everybody has it from the task, so it does not travel. `telemetry` is what the site
    says of its rounds, if it does.
    """

    site: str
    class_counts: Tensor
    trained: Tensors
    statistics: Tensors = field(default_factory=dict)
    network: str = ""
    task: str = ""
    frozen: Tensors = field(default_factory=dict)
    telemetry: tuple[ClientRound, ...] = ()

    @cached_property
    def weights(self) -> Tensors:
        """The network's whole state."""
        return {**self.frozen, **self.trained} if self.frozen else self.trained

    @property
    def encoder(self) -> Encoder:
        return Encoder(self.network, self.weights)

    @property
    def samples(self) -> int:
        return int(self.class_counts.sum())

    @property
    def prototypes(self) -> Tensor:
        return self.trained["prototypes"]

    def contains(self, statistic: str) -> bool:
        return bool(section(self.statistics, statistic))

    def statistic(self, name: str) -> Tensors:
        """A statistic's tensors, sums in full precision."""
        if not self.contains(name):
            raise UserError(lacks(name))
        return in_full(section(self.statistics, name))

    def with_plain_sums(self) -> Upload:
        """The same upload, its sums as X'X and X'Y in single precision."""
        statistics: Tensors = {}
        for name in {key.partition("/")[0] for key in self.statistics}:
            own = {key: value.float() for key, value in self.statistic(name).items()}
            statistics |= prefixed(name, own)
        return replace(self, statistics=statistics)

    def content(self) -> dict[str, object]:
        """All but the tensors."""
        return {
            "site": self.site,
            "network": self.network,
            "task": self.task,
            "samples": self.samples,
            "telemetry": [as_record(each) for each in self.telemetry],
        }

    def tensors(self) -> Tensors:
        own = {**prefixed("weights", self.trained), **prefixed("statistics", self.statistics)}
        return {"class_counts": self.class_counts, **own}

    def to_bytes(self) -> bytes:
        return pack("upload", self.content(), self.tensors())

    @staticmethod
    def from_bytes(data: bytes) -> Upload:
        return Upload.made_of(*unpack("upload", data))

    @staticmethod
    def made_of(content: Mapping[str, Any], tensors: Tensors) -> Upload:
        """UserError where they are not an upload's."""
        trained, counts = section(tensors, "weights"), tensors.get("class_counts")
        if counts is None or counts.dtype != torch.int64:
            raise UserError("this upload contains no class counts in whole numbers")
        if trained and "prototypes" not in trained:
            raise UserError("this upload contains weights without prototypes")
        if content.get("samples") != int(counts.sum()):
            raise UserError("this upload names another total than its class counts have")
        reports = content.get("telemetry")
        if not isinstance(reports, list):
            raise UserError("this upload's telemetry is not a list of rounds")
        return Upload(
            checked_name(content.get("site", "")),
            counts,
            trained,
            section(tensors, "statistics"),
            str(content.get("network", "")),
            str(content.get("task", "")),
            telemetry=tuple(map(ClientRound.from_record, reports)),
        )


def complete(
    uploads: Iterable[Upload], frozen: Mapping[str, Tensors], device: torch.device
) -> list[Upload]:
    """Uploads on a device, with the frozen part of their network, which they leave out."""

    def here(tensors: Tensors) -> Tensors:
        return {name: value.to(device) for name, value in tensors.items()}

    shared = {name: here(tensors) for name, tensors in frozen.items()}
    return [
        replace(
            each,
            trained=here(each.trained),
            statistics=here(each.statistics),
            frozen=shared.get(each.network, {}) if each.trained else {},
        )
        for each in uploads
    ]


def frozen_to_bytes(frozen: Mapping[str, Tensors]) -> bytes:
    """By network, the part that no upload contains, to be kept beside the uploads."""
    tensors: Tensors = {}
    for number, own in enumerate(frozen.values()):
        tensors |= prefixed(str(number), own)
    return pack("frozen", {"networks": list(frozen)}, tensors)


def frozen_from_bytes(data: bytes) -> dict[str, Tensors]:
    content, tensors = unpack("frozen", data)
    names = content["networks"]
    return {str(name): section(tensors, str(number)) for number, name in enumerate(names)}
