"""The second exchange: everybody's encoders go down, statistics under all of them come up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from anchorfl.errors import UserError
from anchorfl.models import Encoder
from anchorfl.tensors import Tensors, prefixed, section
from anchorfl.wire.codec import checked_name, digest, pack, unpack


@dataclass(frozen=True)
class Request:
    """The encoders to describe one's samples under, in this order; `task` is the hash of theirs."""

    encoders: Sequence[Encoder]
    task: str = ""

    @property
    def hash(self) -> str:
        """Of the encoders, in their order: what an answer is an answer to."""
        return digest({"task": self.task}, self.tensors())

    def tensors(self) -> Tensors:
        """Everybody's weights, by number and name."""
        tensors: Tensors = {}
        for number, encoder in enumerate(self.encoders):
            tensors |= prefixed(str(number), encoder.weights)
        return tensors

    def to_bytes(self) -> bytes:
        names = [encoder.name for encoder in self.encoders]
        return pack("request", {"networks": names, "task": self.task}, self.tensors())

    @staticmethod
    def from_bytes(data: bytes) -> Request:
        content, tensors = unpack("request", data)
        names = content.get("networks")
        if not isinstance(names, list):
            raise UserError("this request names no encoders")
        encoders = [Encoder(str(name), section(tensors, str(k))) for k, name in enumerate(names)]
        return Request(encoders, str(content.get("task", "")))


@dataclass(frozen=True)
class Description:
    """A site's answer: statistics of its samples under all encoders; `site` is its name, if any.

    `request` is the hash of what it answers, where the two travel apart.
    """

    client: int
    statistics: Tensors
    task: str = ""
    site: str = ""
    request: str = ""

    def to_bytes(self) -> bytes:
        content = {"client": self.client, "task": self.task, "request": self.request}
        named = {**content, "site": self.site} if self.site else content
        return pack("description", named, self.statistics)

    @staticmethod
    def from_bytes(data: bytes) -> Description:
        content, tensors = unpack("description", data)
        client = content.get("client")
        if type(client) is not int:
            raise UserError("this description names no client")
        site = checked_name(content.get("site", ""))
        task, request = (str(content.get(key, "")) for key in ("task", "request"))
        return Description(client, tensors, task, site, request)
