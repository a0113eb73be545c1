"""Typed options: dataclass fields with a help line and limits, set by `key=value`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, field, fields
from operator import ge, gt, le, lt
from os import PathLike, fspath
from types import NoneType
from typing import Any, TypeVar, get_args, get_type_hints

import yaml

from anchorfl.errors import UserError
from anchorfl.registry import Registry, suggestion

T = TypeVar("T")
KIND_NAMES = {int: "a whole number", float: "a finite number", bool: "true or false", str: "a word"}
LIMITS: dict[str, tuple[str, Callable[[Any, Any], bool]]] = {
    "above": ("above", gt),
    "at_least": ("of at least", ge),
    "below": ("below", lt),
    "at_most": ("of at most", le),
}
"""The words of each limit, and how a value is compared with it."""


def option(
    default: Any, help: str, choices: tuple[str, ...] | Registry[Any] | None = None, **limits: float
) -> Any:
    """A dataclass field that documents itself and knows its limits: above, at_least, below, at_most."""
    assert limits.keys() <= LIMITS.keys()
    return field(default=default, metadata={"help": help, "choices": choices, **limits})


def choices_of(item: Field[Any]) -> list[str] | None:
    """The words a field accepts, where it accepts only some: a fixed few, or a registry's names."""
    choices = item.metadata.get("choices")
    if choices is None:
        return None
    return choices.names() if isinstance(choices, Registry) else list(choices)


def key_of(item: Field[Any]) -> str:
    """The user's spelling of a field: a trailing underscore only dodges a Python keyword."""
    return item.name.rstrip("_")


def allowed(item: Field[Any], kind: type) -> str:
    """What a field accepts, in words."""
    choices = choices_of(item)
    if choices is not None:
        return "one of " + ", ".join(choices)
    limits = item.metadata
    bounds = [f"{words} {limits[name]:g}" for name, (words, _) in LIMITS.items() if name in limits]
    return " ".join([KIND_NAMES[kind], " and ".join(bounds)]).strip()


def field_kind(owner: type, item: Field[Any]) -> tuple[type, bool]:
    """The plain type of a field, and whether it may be left unset (None)."""
    hint = get_type_hints(owner)[item.name]
    kinds = [kind for kind in (get_args(hint) or (hint,)) if kind is not NoneType]
    return kinds[0], hint is not kinds[0]


def convert(value: object, kind: type) -> object:
    """The value as the given type; ValueError where it is not one."""
    if isinstance(value, PathLike):
        value = fspath(value)
    if hasattr(value, "item"):  # a number of numpy or torch
        value = value.item()
    if kind is int and isinstance(value, str):
        return int(value)
    if kind is str and isinstance(value, str | int | float) and not isinstance(value, bool):
        return str(value)
    if isinstance(value, str):
        value = yaml.safe_load(value) if kind is not float else float(value)
    if kind is float and isinstance(value, int | float) and not isinstance(value, bool):
        if math.isfinite(value):
            return float(value)
    elif type(value) is kind:
        return value
    raise ValueError


def within(value: Any, item: Field[Any]) -> bool:
    limits, choices = item.metadata, choices_of(item)
    kept = [fits(value, limits[name]) for name, (_, fits) in LIMITS.items() if name in limits]
    return all(kept) and (choices is None or value in choices)


def build(owner: type[T], values: Mapping[str, object], section: str) -> T:
    """An instance of a dataclass of options, every value checked against its field."""
    known = {key_of(item): item for item in fields(owner)}  # type: ignore[arg-type]
    prefix = f"{section}." if section else ""
    checked: dict[str, object] = {}
    for key, value in values.items():
        if key not in known:
            raise unknown_key(f"{prefix}{key}", value, [f"{prefix}{name}" for name in known])
        item = known[key]
        kind, optional = field_kind(owner, item)
        if optional and value in (None, "null", "auto"):
            checked[item.name] = None
            continue
        try:
            checked[item.name] = convert(value, kind)
            accepted = within(checked[item.name], item)
        except (ValueError, yaml.YAMLError):
            accepted = False
        if not accepted:
            nearest = suggestion(str(value), choices_of(item) or ())
            raise UserError(f"{prefix}{key}={value}: must be {allowed(item, kind)}{nearest}")
    return owner(**checked)


def unknown_key(key: str, value: object, known: list[str]) -> UserError:
    shown = ", ".join(known) if known else "none here"
    return UserError(f"{key}={value}: unknown key{suggestion(key, known)} (keys: {shown})")


def as_mapping(instance: Any) -> dict[str, Any]:
    """The options of an instance, in the user's spelling."""
    return {key_of(item): getattr(instance, item.name) for item in fields(instance)}


def describe(owner: type) -> list[tuple[str, str, str]]:
    """(key, default, help) of every option of a dataclass."""
    rows = []
    for item in fields(owner):
        default = "" if item.default is MISSING or item.default is None else str(item.default)
        if isinstance(item.default, bool):
            default = default.lower()
        rows.append((key_of(item), default, str(item.metadata.get("help", ""))))
    return rows
