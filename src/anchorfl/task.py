"""What goes down to a client: the experiment, the weights to start from, anchors or bank."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from torch import Tensor

from anchorfl.anchors import shared_anchors
from anchorfl.config import Config, flatten, resolve
from anchorfl.errors import UserError
from anchorfl.models import ImageFacts, Network, build_network
from anchorfl.tensors import Tensors, pack, prefixed, section, unpack

LOCAL_KEYS = (
    "device",
    "out",
    "track",
    "data.root",
    "partition.file",
    "model.weights",
    "train.precision",
    "train.graphs",
)


@dataclass(frozen=True)
class Task:
    """The same for every client, so that all start from the same weights and prototypes."""

    config: Config
    facts: ImageFacts
    weights: Tensors
    anchors: Tensor | None = None
    bank: Tensor | None = None

    @staticmethod
    def prepare(config: Config, facts: ImageFacts) -> Task:
        network = build_network(
            str(config.model.name), facts, config.seed, weights=config.model.weights
        )
        anchors = shared_anchors(config, network.prototypes)
        return Task(config, facts, network.state_dict(), anchors)

    def network(self) -> Network:
        """The skeleton that the weights fill; every site builds it from the experiment."""
        network = build_network(str(self.config.model.name), self.facts, self.config.seed)
        return network.fill(self.weights)

    def to_bytes(self) -> bytes:
        """What is a site's own business (its device, its paths) stays out."""
        settings = flatten(self.config.to_dict())
        shared = {key: value for key, value in settings.items() if key not in LOCAL_KEYS}
        tensors = prefixed("weights", self.weights)
        optional = {"anchors": self.anchors, "bank": self.bank}
        tensors |= {name: value for name, value in optional.items() if value is not None}
        return pack("task", {"config": shared, "facts": asdict(self.facts)}, tensors)

    @staticmethod
    def from_bytes(data: bytes) -> Task:
        content, tensors = unpack("task", data)
        try:
            settings, facts = content["config"], ImageFacts.from_json(content["facts"])
            method = settings.pop("method")
        except (KeyError, TypeError, ValueError, AttributeError):
            raise UserError("this task holds no experiment") from None
        weights = section(tensors, "weights")
        config = resolve(method, settings)
        return Task(config, facts, weights, tensors.get("anchors"), tensors.get("bank"))
