"""Every key of an experiment: what it takes, its default, its meaning, and who sets another default."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import fields
from textwrap import fill, indent, shorten
from typing import NamedTuple, TypeVar

from anchorfl.config import DEFAULT_FUSION, SECTIONS, DataOptions, GeneralOptions
from anchorfl.data import DATASETS
from anchorfl.errors import UserError
from anchorfl.fusion import FUSIONS
from anchorfl.methods import METHODS, Method
from anchorfl.objective import ALIGN_TARGETS, BALANCES
from anchorfl.options import allowed, describe, field_kind
from anchorfl.registry import Registry
from anchorfl.settings import PRESETS, flatten, preset_names, resolve

T = TypeVar("T")
UNSET = "unset"


class Key(NamedTuple):
    """One key as a user writes it; `takes` states in words what may stand behind the equals sign."""

    name: str
    takes: str
    default: str
    help: str


def loaded(registry: Registry[T]) -> dict[str, T]:
    """Every entry by name, without those of other packages that are broken."""
    found = {}
    for name in registry.names():
        with suppress(UserError):
            found[name] = registry.get(name)
    return found


def shown(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def keys_of(owner: type, prefix: str) -> list[Key]:
    """The options of a dataclass, under a prefix such as `train.`."""
    return [
        Key(f"{prefix}{key}", allowed(item, field_kind(owner, item)[0]), default or UNSET, help)
        for item, (key, default, help) in zip(fields(owner), describe(owner), strict=True)
    ]


FUSION_KEY = Key(
    "fusion",
    "names with commas",
    DEFAULT_FUSION,
    "what the server makes of the uploads: one or more, the first makes the predictor",
)


def keys_of_all() -> dict[str, list[Key]]:
    """By section: the keys that every method takes; those without a dot under `general`."""
    found = {section: keys_of(owner, f"{section}.") for section, owner in SECTIONS.items()}
    return {**found, "general": [FUSION_KEY, *keys_of(GeneralOptions, "")]}


def align_keys(method: Method) -> list[Key]:
    """What a method takes under `align.`: the options of its balance and of its align target."""
    owners = [BALANCES.get(method.balance)]
    target = [] if method.target is None else [ALIGN_TARGETS.get(method.target)]
    return [key for owner in (*owners, *target) for key in keys_of(owner, "align.")]


def keys_by_methods() -> dict[tuple[str, ...], list[Key]]:
    """The keys under `align.`, by the methods that have them with the same default and meaning."""
    holders: dict[Key, list[str]] = {}
    for name, method in loaded(METHODS).items():
        with suppress(UserError):
            for key in align_keys(method):
                holders.setdefault(key, []).append(name)
    groups: dict[tuple[str, ...], list[Key]] = {}
    for key, names in holders.items():
        groups.setdefault(tuple(names), []).append(key)
    return groups


def fusion_keys() -> list[Key]:
    """The options of every fusion."""
    return [key for name, kind in loaded(FUSIONS).items() for key in keys_of(kind, f"fusion.{name}.")]


def set_by_data() -> dict[str, dict[str, object]]:
    """By data set, what a run on it gets where nothing else is said, if not all data sets agree.

    What is left to the number of the user's own images is not among it.
    """
    plain = {key.name: key.default for keys in keys_of_all().values() for key in keys}
    runs = {name: flatten(resolve("v4", {"data.name": name}).to_dict()) for name in loaded(DATASETS)}
    varying = [key for key in plain if len({shown(run[key]) for run in runs.values()}) > 1]
    varying.remove("data.name")
    return {
        name: {
            key: run[key] for key in varying if run[key] is not None and shown(run[key]) != plain[key]
        }
        for name, run in runs.items()
    }


def set_by_method() -> dict[str, Mapping[str, object]]:
    """By method, the defaults of its own."""
    return {name: method.defaults for name, method in loaded(METHODS).items() if method.defaults}


def words_of(settings: Mapping[str, object]) -> str:
    return " ".join(f"{key}={shown(value)}" for key, value in settings.items())


def about_preset(name: str) -> str:
    """The first sentence of a preset's comment that is no command."""
    lines = (PRESETS.parent / name).read_text().splitlines()
    comment = [line[2:] for line in lines if re.match("# (?!anchorfl )", line)]
    sentence = re.split(r"\. |: anchorfl", " ".join(comment))[0].rstrip(".")
    return shorten(sentence, 100, placeholder=" ...")


def keys_help() -> str:
    """All of it for the end of a help page; a star marks a default that is not everybody's."""
    by_data, by_method = set_by_data(), set_by_method()
    changed = {key for own in (*by_data.values(), *by_method.values()) for key in own}
    parts = ["Keys (default; * where the data set or the method sets another, see below):"]
    for keys in keys_of_all().values():
        parts += [line_of(key, changed, 22) for key in keys]
    parts += ["\nKeys of lambda and of what is aligned, by method (anchorfl methods NAME shows one):"]
    for methods, keys in keys_by_methods().items():
        parts.append(indent(fill(f"{', '.join(methods)}:", 102, break_on_hyphens=False), "  "))
        parts += ["  " + line_of(key, changed, 21) for key in keys]
    parts += ["\nOptions of fusions (anchorfl methods --fusions says what each does):"]
    parts += [line_of(key, changed, 31) for key in fusion_keys()]
    parts += [f"\nWhat data.name sets, unless you do ({DataOptions.name} is the default):"]
    parts += [f"  {name:<14} {words_of(own)}" for name, own in by_data.items()]
    parts += ["\nWhat the method sets, unless you do:"]
    parts += [f"  {name:<14} {words_of(own)}" for name, own in by_method.items()]
    parts += ["\nPresets and sweeps that come along, from any folder:"]
    parts += [f"  {name:<30} {about_preset(name)}" for name in preset_names()]
    return "\n".join(parts) + "\n"


def line_of(key: Key, changed: Collection[str], width: int) -> str:
    default = f"{key.default}*" if key.name in changed else key.default
    return f"  {key.name:<{width}} {default:<11} {key.help}"
