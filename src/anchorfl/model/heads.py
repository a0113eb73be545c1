"""A head as plain values and tensors, and again as a module: nothing that a file names is executed."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

from torch import nn

from anchorfl.describe import Describer, Sketch, Stages
from anchorfl.errors import UserError
from anchorfl.fusion import FUSIONS, MODULES, Head
from anchorfl.nn import ENCODERS, build_encoder, public_name
from anchorfl.tensors import Tensors


def built_by(name: str, code: Sequence[str]) -> str:
    """What builds a network that a file names: of this package, or code of the user's own."""
    if name in ENCODERS.names():
        return name
    own = {public_name(each): each for each in code}
    if name not in own:
        others = f", and --model names {', '.join(own)}" if own else "; add --model FILE.py:NAME"
        raise UserError(f"its encoder is {name}, code that no file brings along{others}")
    return own[name]


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
    kind = type(module)
    home = kind.__module__.rpartition(".")[2] if kind.__module__.startswith("anchorfl.fusion.") else ""
    return {"kind": kind.__name__, "home": home, "plain": plain, "parts": parts}


def rebuilt(description: dict[str, Any], tensors: Tensors, code: Sequence[str], place: str = "") -> Any:
    """The opposite of `described`, for kinds that are known here; nothing is imported or run."""
    if description["home"] in MODULES:
        import_module(f"anchorfl.fusion.{description['home']}")
    known = (Describer, Sketch, Stages, *descendants(Head))
    kinds: dict[str, type[nn.Module]] = {kind.__name__: kind for kind in known}
    kind = kinds.get(str(description.get("kind")))
    if kind is None and FUSIONS.names():  # of another package
        kind = {each.__name__: each for each in descendants(Head)}.get(str(description.get("kind")))
    if kind is None:
        raise UserError(f"this model has a head of unknown kind {description.get('kind')!r}")
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
        encoder = build_encoder(built_by(module.name, code), module.shape)
        encoder.load_state_dict(section_of(tensors, f"{place}encoder."))
        module.encoder = encoder.eval()
    for name, part in description["parts"].items():
        module.add_module(name, rebuilt(part, tensors, code, f"{place}{name}."))
    return module


def descendants(kind: type) -> list[type]:
    own: list[type] = kind.__subclasses__()
    return own + [each for child in own for each in descendants(child)]
