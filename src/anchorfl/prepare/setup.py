"""A task as this machine understands it, and the first task of an experiment."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path

import torch
from torch import Tensor

from anchorfl.config import Config
from anchorfl.data import ImageFacts
from anchorfl.describe import Describer, Sketch, Stages, in_single
from anchorfl.errors import UserError
from anchorfl.messages import Start, Task, read_start
from anchorfl.nn import Look, Network, build_encoder, build_network, public_name
from anchorfl.objective import AlignTarget
from anchorfl.settings import flatten, resolve
from anchorfl.tensors import Tensors


def describer_for(config: Config, facts: ImageFacts, start: Start | None) -> Describer:
    """What the sites of an experiment describe images by: a sketch, or a start's frozen encoder."""
    shape, mirrored = facts.shape, bool(config.data.flip)
    if start is None:
        filters = config.describe.sketch_filters
        return Describer(Sketch.drawn(shape, filters, config.seed, mirrored))
    model = config.model.names[0]
    if public_name(model) != start.encoder:
        raise UserError(f"model.name={model}: the start's encoder is {start.encoder}")
    if shape[0] != start.facts.shape[0]:
        raise UserError(
            f"model.weights: the start is for images of {start.facts.shape[0]} channels,"
            f" not of {shape[0]}"
        )
    encoder = build_encoder(model, shape)
    try:
        encoder.load_state_dict(start.weights)
        stages = Stages(encoder, start.encoder, start.facts, shape, mirrored)
        sketch = Sketch(shape, start.sketch["kernels"], start.sketch["offsets"], mirrored)
        describer = Describer(sketch, stages, in_single(start.basis[:, : config.describe.width]))
        with torch.no_grad():
            describer(torch.zeros(1, *shape))
    except RuntimeError as error:
        why = " ".join(str(error).split())[:200]
        raise UserError(f"this start does not fit images of {shape}: {why}") from None
    return describer


def described_width(config: Config, start: Start | None) -> int:
    """How many numbers describe an image."""
    if start is None:
        return Sketch.width_of(config.describe.sketch_filters)
    return min(config.describe.width, start.basis.shape[1])


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
    "model.save",
    "model.weights",
    "train.precision",
    "train.graphs",
    "train.checkpoint_every",
)
"""What is a machine's own business, and no task's."""


@dataclass(frozen=True)
class Setup:
    """A task and its settings, resolved: what networks are built and images described by."""

    task: Task
    config: Config

    @staticmethod
    def of(task: Task, model: str | None = None) -> Setup:
        """Of a task from elsewhere. Code that it asks for is never imported: a site names its own."""
        settings = {key: value for key, value in task.settings.items() if key not in LOCAL_KEYS}
        wanted, method = (str(settings.get(key, "")) for key in ("model.name", "method"))
        if ":" in wanted and model is None:
            raise UserError(
                f"this task's encoder is code ({wanted}), which a task may not bring along;"
                " name your own with --model FILE.py:NAME"
            )
        if model is not None:
            settings["model.name"] = model
            task = replace(task, encoder=public_name(model), first=task.hash)
        settings.pop("method", None)
        for named in (method, settings.get("data.name"), settings.get("fusion")):
            if ".py:" in str(named):
                raise UserError(f"this task names code ({named}), which a task may not bring along")
        try:
            config = resolve(method, settings, needs=task.needs)
        except UserError as error:
            raise UserError(f"this task is of another version, or damaged: {error}") from None
        return Setup(task, config)

    @property
    def facts(self) -> ImageFacts:
        return self.task.facts

    @property
    def look(self) -> Look:
        """How sites and server show an image to encoders that are to be fused."""
        model = self.config.model
        return Look(model.zoom, model.mirrored and bool(self.config.data.flip))

    @cached_property
    def encoders(self) -> dict[str, str]:
        """By the name that messages use, the one that builds it here."""
        return {public_name(name): name for name in self.config.model.names}

    def blank(self, encoder: str) -> Network:
        """One of the experiment's networks, as the seed starts it."""
        config = self.config
        freeze = config.model.freeze
        return build_network(self.encoders[encoder], self.facts, config.seed, freeze=freeze)

    def network(self, encoder: str) -> Network:
        """As the task starts it: the first encoder by the task's weights, others by the seed."""
        network = self.blank(encoder)
        return network.fill(self.task.weights) if encoder == self.task.encoder else network

    def networks(self) -> dict[str, Callable[[], Network]]:
        """By name, what makes each of the experiment's networks."""
        return {name: partial(self.network, name) for name in self.encoders}

    def weights_of(self, encoder: str) -> Tensors:
        """What sites with an encoder start from."""
        if encoder == self.task.encoder:
            return self.task.weights
        return self.blank(encoder).state_dict()

    def target_of(self, network: Network, encoder: str) -> Tensor | None:
        """What sites with an encoder align to, in as many dimensions as it has."""
        if encoder == self.task.encoder:
            return self.task.target
        return shared_target(self.config.target, self.config.seed, network.prototypes)

    def describer(self) -> Describer:
        """What every site describes its images by, whatever its own encoder."""
        return describer_for(self.config, self.facts, self.task.start)


def new_task(config: Config, facts: ImageFacts, class_names: tuple[str, ...] = ()) -> Task:
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
        weights |= start.network_weights()
        network.fill(weights)
    target = shared_target(config.target, config.seed, network.prototypes)
    settings = shared_settings(config)
    return Task(
        settings, facts, weights, config.needs, target, class_names, public_name(name), start=start
    )


def shared_settings(config: Config) -> dict[str, object]:
    """Those of the experiment, without what is each machine's own business."""
    names = ",".join(map(public_name, config.model.names))
    settings = {**flatten(config.to_dict()), "model.name": names}
    return {key: value for key, value in settings.items() if key not in LOCAL_KEYS}


def shared_target(target: AlignTarget | None, seed: int, prototypes: Tensor) -> Tensor | None:
    """What sites align to, where the seed fixes it for prototypes of this shape."""
    classes, dimension = prototypes.shape
    return None if target is None else target.derived(classes, dimension, seed)
