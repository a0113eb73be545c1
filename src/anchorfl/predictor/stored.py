"""A predictor as safetensors: written and loaded again, with no code in the file."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import nn

from anchorfl.data import ImageFacts
from anchorfl.describe import Describer, Sketch, Stages
from anchorfl.errors import UserError
from anchorfl.models import build_encoder, build_network
from anchorfl.predictor.familiarity import Familiarity
from anchorfl.predictor.module import Card, Predictor
from anchorfl.registry import ENCODERS, FUSIONS
from anchorfl.server import Head
from anchorfl.tensors import Tensors, section
from anchorfl.wire import pack, unpack


def write_safetensors(predictor: Predictor, path: Path) -> None:
    """Tensors, and in the header the card and what the head is made of: no code, no pickle."""
    content = {"card": asdict(predictor.card), "encoders": len(predictor.encoders)}
    content["head"] = described(predictor.head)
    tensors = {name.replace(".", "/", 1): value for name, value in predictor.state_dict().items()}
    path.write_bytes(pack("predictor", content, tensors))


def load_predictor(path: Path) -> Predictor:
    """What `write_safetensors` wrote, ready to predict. Only models of this package are built."""
    try:
        content, tensors = unpack("predictor", path.read_bytes())
    except UserError as error:
        raise UserError(f"{path}: {error}") from None
    try:
        facts = ImageFacts.from_json(content["card"]["facts"])
        card = Card(**dict(content["card"], facts=facts))
        models = card.models or [card.model] * int(content["encoders"])
        for name in models:
            refuse_code(name)
        weights = section(tensors, "encoders")
        encoders = [
            build_network(name, card.facts, 0).fill(section_of(weights, f"{number}."))
            for number, name in enumerate(models)
        ]
        head = rebuilt(content["head"], section(tensors, "head"))
        familiarity = section(tensors, "familiarity")
        known = Familiarity(**familiarity) if familiarity else None
        predictor = Predictor(encoders, head, card, known)
        predictor.probabilities(torch.zeros(1, *predictor.shape))
        predictor.unfamiliarity(torch.zeros(1, *predictor.shape))
    except UserError as error:
        raise UserError(f"{path}: {error}") from None
    except (KeyError, TypeError, ValueError, AttributeError, RuntimeError):
        raise UserError(f"{path}: holds no predictor that can be read") from None
    return predictor


def section_of(tensors: Tensors, start: str) -> Tensors:
    """The entries whose names begin so, by the rest of it."""
    return {name.removeprefix(start): tensors[name] for name in tensors if name.startswith(start)}


def described(module: nn.Module) -> dict[str, Any]:
    """A head's kind, its plain attributes, its parts; its tensors travel beside this."""
    plain = {
        name: value
        for name, value in vars(module).items()
        if not name.startswith("_") and name != "training"
    }
    inner = () if isinstance(module, Stages) else module.named_children()
    parts = {name: described(part) for name, part in inner}
    return {"kind": type(module).__name__, "plain": plain, "parts": parts}


def rebuilt(description: dict[str, Any], tensors: Tensors, place: str = "") -> Any:
    """The opposite of `described`, for kinds that are known here; nothing is imported or run."""
    FUSIONS.names()  # also those of other packages
    known = (Describer, Sketch, Stages, *descendants(Head))
    kinds: dict[str, type[nn.Module]] = {kind.__name__: kind for kind in known}
    kind = kinds.get(str(description.get("kind")))
    if kind is None:
        raise UserError(f"this predictor has a head of unknown kind {description.get('kind')!r}")
    module = kind.__new__(kind)
    nn.Module.__init__(module)
    for name, value in description["plain"].items():
        if name.startswith("_") or hasattr(module, name):
            raise ValueError(name)
        setattr(module, name, tuple(value) if isinstance(value, list) else value)
    for name, value in tensors.items():
        if name.startswith(place) and "." not in name.removeprefix(place):
            module.register_buffer(name.removeprefix(place), value)
    if isinstance(module, Stages):
        module.encoder = frozen_encoder(module, section_of(tensors, f"{place}encoder."))
    for name, part in description["parts"].items():
        module.add_module(name, rebuilt(part, tensors, f"{place}{name}."))
    return module


def frozen_encoder(stages: Stages, weights: Tensors) -> nn.Module:
    """A start's, by its name, which must be one of this package."""
    refuse_code(stages.name)
    encoder = build_encoder(stages.name, stages.shape)
    encoder.load_state_dict(weights)
    return encoder.eval()


def refuse_code(name: str) -> None:
    if name not in ENCODERS.names():
        raise UserError(
            f"its encoder is {name}, code that a file may not bring along;"
            " export such a predictor as .pt2 or .onnx"
        )


def descendants(kind: type) -> list[type]:
    own: list[type] = kind.__subclasses__()
    return own + [each for child in own for each in descendants(child)]
