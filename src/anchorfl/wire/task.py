"""What goes down to a client: the experiment, the weights to start from, what to align to."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from torch import Tensor

from anchorfl.config import Config
from anchorfl.data import ImageFacts
from anchorfl.errors import UserError
from anchorfl.models import Network, build_network
from anchorfl.objective import AlignTarget
from anchorfl.settings import flatten, resolve
from anchorfl.tensors import Tensors, prefixed, section
from anchorfl.wire.codec import pack, unpack

LOCAL_KEYS = (
    "device",
    "threads",
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
    """The same for every client, so that all start from the same weights and prototypes.

    `target` is what the method's clients align to: anchors, or a bank, or nothing.
    """

    config: Config
    facts: ImageFacts
    weights: Tensors
    target: Tensor | None = None

    @staticmethod
    def prepare(config: Config, facts: ImageFacts) -> Task:
        """A target that the server must make first (a bank) is still missing."""
        model = config.model
        network = build_network(str(model.name), facts, config.seed, model.weights, model.freeze)
        target = shared_target(config.target, config.seed, network.prototypes)
        return Task(config, facts, network.state_dict(), target)

    def network(self) -> Network:
        """The skeleton that the weights fill; every site builds it from the experiment."""
        model = self.config.model
        network = build_network(str(model.name), self.facts, self.config.seed, freeze=model.freeze)
        return network.fill(self.weights)

    def to_bytes(self) -> bytes:
        """What is a site's own business (its device, its paths) stays out."""
        settings = flatten(self.config.to_dict())
        shared = {key: value for key, value in settings.items() if key not in LOCAL_KEYS}
        tensors = prefixed("weights", self.weights)
        if self.target is not None:
            tensors["target"] = self.target
        return pack("task", {"config": shared, "facts": asdict(self.facts)}, tensors)

    @staticmethod
    def from_bytes(data: bytes) -> Task:
        """A task of this format, or of format 2, which named the target by its kind."""
        content, tensors = unpack("task", data)
        try:
            settings, facts = content["config"], ImageFacts.from_json(content["facts"])
            method = settings.pop("method")
        except (KeyError, TypeError, ValueError, AttributeError):
            raise UserError("this task contains no experiment") from None
        names = ("target", "anchors", "bank")
        target = next((tensors[name] for name in names if name in tensors), None)
        return Task(resolve(method, settings), facts, section(tensors, "weights"), target)


def shared_target(target: AlignTarget | None, seed: int, prototypes: Tensor) -> Tensor | None:
    """What clients align to, where the seed fixes it for prototypes of this shape."""
    classes, dimension = prototypes.shape
    return None if target is None else target.derived(classes, dimension, seed)
