"""What goes down to a site: the experiment, the weights to start from, what to align to."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from pathlib import Path

from torch import Tensor

from anchorfl.config import Config
from anchorfl.data import ImageFacts
from anchorfl.describe import Describer
from anchorfl.errors import UserError
from anchorfl.models import Network, build_network, public_name
from anchorfl.objective import AlignTarget
from anchorfl.settings import flatten, resolve, whole_images
from anchorfl.tensors import Tensors, prefixed, section
from anchorfl.wire.codec import digest, pack, unpack
from anchorfl.wire.start import Start, describer_for, read_start

LOCAL_KEYS = (
    "device",
    "threads",
    "engine",
    "flower.cpus",
    "flower.gpus",
    "out",
    "track",
    "data.root",
    "partition.file",
    "model.weights",
    "train.precision",
    "train.graphs",
    "train.checkpoint_every",
)


@dataclass(frozen=True)
class Task:
    """The same for every site, so that all start from the same weights and prototypes.

    `encoder` is the network that the weights are of. `target` is what the method's sites align to:
    anchors, a bank, the prototypes of the round before, or nothing. `round` is the first that the
    site trains; a later task without weights leaves a site its own.
    """

    config: Config
    facts: ImageFacts
    weights: Tensors
    target: Tensor | None = None
    class_names: tuple[str, ...] = ()
    encoder: str = ""
    round: int = 0
    first: str = ""
    start: Start | None = None

    @staticmethod
    def prepare(config: Config, facts: ImageFacts, class_names: tuple[str, ...] = ()) -> Task:
        """The first task; a target that the server must make first (a bank) is still missing."""
        name, file = config.model.names[0], config.model.weights
        start = read_start(Path(file)) if file is not None else None
        plain = file if start is None else None
        if start is not None and start.facts.shape[0] == facts.shape[0]:
            facts = replace(facts, mean=start.facts.mean, std=start.facts.std)
        if plain is not None and len(config.model.names) > 1:
            raise UserError(f"model.weights={plain}: plain weights fit one encoder; name one model")
        network = build_network(name, facts, config.seed, plain, config.model.freeze)
        weights = network.state_dict()
        if start is not None:
            describer_for(config, facts, start)  # refused here, if it does not fit
            start = start.cut(config.describe.width)
            weights |= started_from(start)
            network.fill(weights)
        target = shared_target(config.target, config.seed, network.prototypes)
        encoder = public_name(name)
        return Task(config, facts, weights, target, class_names, encoder, start=start)

    def describer(self) -> Describer:
        """What every site describes its images by, whatever its own encoder."""
        return describer_for(self.config, self.facts, self.start)

    @cached_property
    def hash(self) -> str:
        """Names the experiment: of the first task, whichever round or encoder this one is for."""
        return self.first or digest(self._content(), self.tensors())

    @property
    def encoders(self) -> dict[str, str]:
        """By the name that messages use, the one that builds it here."""
        return {public_name(name): name for name in self.config.model.names}

    def for_encoder(self, name: str) -> Task:
        """The same task for a site with another of the experiment's encoders, started by the seed."""
        if name == self.encoder:
            return self
        config = self.config
        network = build_network(self.encoders[name], self.facts, config.seed, None, config.model.freeze)
        target = shared_target(config.target, config.seed, network.prototypes)
        return replace(self, weights=network.state_dict(), target=target, encoder=name, first=self.hash)

    def network(self) -> Network:
        """The skeleton that the weights fill; every site builds it from the experiment."""
        model = self.config.model
        place = self.encoders[self.encoder] if self.encoder else model.names[0]
        return build_network(place, self.facts, self.config.seed, freeze=model.freeze).fill(
            self.weights
        )

    def networks(self) -> dict[str, Callable[[], Network]]:
        """By name, what makes each of the experiment's networks."""
        return {name: partial(network_of, self, name) for name in self.encoders}

    def to_bytes(self) -> bytes:
        """What is a site's own business (its device, its paths, its code) stays out."""
        content = {**self._content(), "round": self.round, "hash": self.hash}
        return pack("task", content, self.tensors())

    def _content(self) -> dict[str, object]:
        return {
            "config": {**shared_settings(self.config), "model.name": ",".join(self.encoders)},
            "facts": asdict(self.facts),
            "class_names": list(self.class_names),
            "encoder": self.encoder,
            **({} if self.start is None else {"start": self.start.content()}),
        }

    def tensors(self) -> Tensors:
        """Weights, target and start by name; what the start contains is not among the weights again."""
        tensors = prefixed("weights", self.weights)
        if self.start is not None:
            same = started_from(self.start)
            own = {key: value for key, value in self.weights.items() if value is not same.get(key)}
            tensors = {**prefixed("weights", own), **prefixed("start", self.start.tensors())}
        return tensors if self.target is None else {**tensors, "target": self.target}

    def with_tensors(self, tensors: Tensors, number: int) -> Task:
        """The task of a round of the same experiment, with other weights or another target."""
        weights, target = section(tensors, "weights"), tensors.get("target")
        first = self.hash if number else self.first
        return replace(self, weights=weights, target=target, round=number, first=first)

    @staticmethod
    def from_bytes(data: bytes, model: str | None = None) -> Task:
        """A task of this format, or of format 2, which named the target by its kind.

        Code that the task asks for is never imported: a site names its own, as `model`.
        """
        content, tensors = unpack("task", data)
        try:
            sent, facts = dict(content["config"]), ImageFacts.from_json(content["facts"])
            settings = {key: value for key, value in sent.items() if key not in LOCAL_KEYS}
            settings = {**whole_images(settings), **settings}
            method = settings.pop("method")
            wanted = str(settings.get("model.name", ""))
            names = tuple(str(name) for name in content.get("class_names", ()))
            encoder, first = str(content.get("encoder", "")), str(content.get("hash", ""))
            number = int(content.get("round", 0))
        except (KeyError, TypeError, ValueError, AttributeError):
            raise UserError("this task contains no experiment") from None
        if first and not re.fullmatch("[0-9a-f]{64}", first):
            raise UserError("this task's hash is none")
        if names and len(names) != facts.classes:
            raise UserError("this task names other classes than it counts")
        if ":" in wanted and model is None:
            raise UserError(
                f"this task's encoder is code ({wanted}), which a task may not bring along;"
                " name your own with model.name=FILE.py:NAME"
            )
        if model is not None:
            settings["model.name"] = model
            encoder = public_name(model)
        target = next((tensors[key] for key in ("target", "anchors", "bank") if key in tensors), None)
        try:
            config, start = resolve(method, settings), None
        except UserError as error:
            raise UserError(f"this task is of another version, or damaged: {error}") from None
        weights = section(tensors, "weights")
        if "start" in content:
            start = Start.made_of(content["start"], section(tensors, "start"))
            weights = {**started_from(start), **weights}
        return Task(config, facts, weights, target, names, encoder, number, first, start)


def shared_settings(config: Config) -> dict[str, object]:
    """Those of the experiment, without what is each machine's own business."""
    settings = flatten(config.to_dict())
    return {key: value for key, value in settings.items() if key not in LOCAL_KEYS}


def started_from(start: Start) -> Tensors:
    """A start's weights under the names of a network."""
    return {f"encoder.{name}": value for name, value in start.weights.items()}


def network_of(task: Task, encoder: str) -> Network:
    return task.for_encoder(encoder).network()


def shared_target(target: AlignTarget | None, seed: int, prototypes: Tensor) -> Tensor | None:
    """What sites align to, where the seed fixes it for prototypes of this shape."""
    classes, dimension = prototypes.shape
    return None if target is None else target.derived(classes, dimension, seed)
