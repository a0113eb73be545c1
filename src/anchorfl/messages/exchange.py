"""The second exchange: everybody's encoders go down, statistics under all of them come up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from anchorfl.errors import UserError
from anchorfl.messages.codec import checked_name, digest, pack, unpack
from anchorfl.tensors import Encoder, Tensors, prefixed, section


@dataclass(frozen=True)
class Request:
    """By site, the encoders to describe one's samples under, in this order; `task` is a hash."""

    encoders: Mapping[str, Encoder]
    task: str

    @cached_property
    def hash(self) -> str:
        """What an answer is an answer to."""
        return digest(self.content(), self.tensors())

    def content(self) -> dict[str, object]:
        return {
            "sites": list(self.encoders),
            "networks": [encoder.name for encoder in self.encoders.values()],
            "task": self.task,
        }

    def tensors(self) -> Tensors:
        """Everybody's weights, by number and name."""
        tensors: Tensors = {}
        for number, encoder in enumerate(self.encoders.values()):
            tensors |= prefixed(str(number), encoder.weights)
        return tensors

    def to_bytes(self) -> bytes:
        return pack("request", self.content(), self.tensors())

    @staticmethod
    def from_bytes(data: bytes) -> Request:
        content, tensors = unpack("request", data)
        sites, networks = content.get("sites"), content.get("networks")
        if not isinstance(sites, list) or not isinstance(networks, list):
            raise UserError("this request names no encoders")
        if len(sites) != len(networks) or len(set(map(str, sites))) != len(sites):
            raise UserError("this request names encoders without their sites")
        encoders = {
            checked_name(site): Encoder(str(network), section(tensors, str(number)))
            for number, (site, network) in enumerate(zip(sites, networks, strict=True))
        }
        return Request(encoders, str(content.get("task", "")))


@dataclass(frozen=True)
class Description:
    """A site's answer: statistics of its samples under all encoders of the request of this hash."""

    site: str
    statistics: Tensors
    task: str
    request: str

    def to_bytes(self) -> bytes:
        content = {"site": self.site, "task": self.task, "request": self.request}
        return pack("description", content, self.statistics)

    @staticmethod
    def from_bytes(data: bytes) -> Description:
        content, tensors = unpack("description", data)
        task, request = (str(content.get(key, "")) for key in ("task", "request"))
        return Description(checked_name(content.get("site", "")), tensors, task, request)
