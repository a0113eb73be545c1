"""What comes up from a client: its weights and prototypes, and the statistics that fusions need."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from anchorfl.describe import in_full
from anchorfl.errors import UserError
from anchorfl.models import Encoder
from anchorfl.tensors import Tensors, prefixed, section
from anchorfl.wire.codec import checked_name, pack, unpack
from anchorfl.wire.telemetry import ClientRound


def lacks(statistic: str) -> str:
    """What to answer where uploads were made without a statistic."""
    return f"these uploads contain no {statistic.replace('_', ' ')}"


@dataclass(frozen=True)
class Upload:
    """`trained` is what training may have changed: parameters, prototypes among them, and buffers.

    It is empty where the method trains nothing. `class_counts` are the client's samples by class, of
    small classes too. `statistics` are those that the run's fusions need, by name
    (`class_means/mean`). `network` names the one that the weights are of (the experiment's only one
    where it is empty), `task` is the hash of the task it answers. `frozen` is the rest of the network:
    everybody has it from the task, so it does not travel. `site` is the name of the place it comes
    from, where there is one; `telemetry` what the site says of its rounds, if it does.
    """

    client: int
    class_counts: Tensor
    trained: Tensors
    statistics: Tensors = field(default_factory=dict)
    network: str = ""
    task: str = ""
    frozen: Tensors = field(default_factory=dict)
    site: str = ""
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

    def to_bytes(self) -> bytes:
        tensors = {"class_counts": self.class_counts}
        tensors |= {**prefixed("weights", self.trained), **prefixed("statistics", self.statistics)}
        content: dict[str, object] = {
            "client": self.client,
            "network": self.network,
            "task": self.task,
            "samples": self.samples,
        }
        if self.site:
            content["site"] = self.site
        if self.telemetry:
            content["telemetry"] = [asdict(each) for each in self.telemetry]
        return pack("upload", content, tensors)

    @staticmethod
    def from_bytes(data: bytes) -> Upload:
        """An upload of this format, or of one before: format 2 wrote `told` for `statistics`."""
        content, tensors = unpack("upload", data)
        trained = section(tensors, "weights")
        client, network, task = (content.get(key, "") for key in ("client", "network", "task"))
        if type(client) is not int or "class_counts" not in tensors:
            raise UserError("this upload names no client or contains no class counts")
        if trained and "prototypes" not in trained:
            raise UserError("this upload contains weights without prototypes")
        if tensors["class_counts"].dtype != torch.int64:
            raise UserError("this upload's class counts are not whole numbers")
        if content.get("samples", total := int(tensors["class_counts"].sum())) != total:
            raise UserError("this upload names another total than its class counts have")
        statistics = widened({**section(tensors, "told"), **section(tensors, "statistics")})
        return Upload(
            client,
            tensors["class_counts"],
            trained,
            statistics,
            str(network),
            str(task),
            site=checked_name(content.get("site", "")),
            telemetry=reports_in(content.get("telemetry", [])),
        )


def widened(statistics: Tensors) -> Tensors:
    """Sums of earlier formats: up to 3 shares of the largest, in 4 a factor in one precision."""
    found = dict(statistics)
    for name in [key.removesuffix("/scale") for key in statistics if key.endswith("/scale")]:
        own = section(statistics, name)
        if own.keys() == {"triangle", "cross", "scale"} and own["scale"].numel() == 1:
            scale = found.pop(f"{name}/scale").float()
            found |= {f"{name}/{part}": own[part].float() * scale for part in ("triangle", "cross")}
    for name in [key.removesuffix("/factor") for key in statistics if key.endswith("/factor")]:
        factor = found.pop(f"{name}/factor")
        none = torch.zeros(0, device=factor.device)
        both = (none.half(), factor) if factor.dtype == torch.uint8 else (factor, none.byte())
        found |= dict(zip((f"{name}/factor16", f"{name}/factor8"), both, strict=True))
    return found


def reports_in(records: Any) -> tuple[ClientRound, ...]:
    if not isinstance(records, list):
        raise UserError("this upload's telemetry is not a list of rounds")
    return tuple(ClientRound.from_record(record) for record in records)


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
    """Of this format, or of one network that is not named."""
    content, tensors = unpack("frozen", data)
    names = content.get("networks")
    if names is None:
        return {"": tensors}
    return {str(name): section(tensors, str(number)) for number, name in enumerate(names)}
