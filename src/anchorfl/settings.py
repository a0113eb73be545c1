"""From words, presets and defaults to a checked experiment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import yaml

from anchorfl.config import (
    DEFAULT_FUSION,
    SECTIONS,
    Config,
    DataOptions,
    GeneralOptions,
    ModelOptions,
    PartitionOptions,
    TrainOptions,
    UploadOptions,
)
from anchorfl.errors import UserError
from anchorfl.options import build, key_of, unknown_key
from anchorfl.registry import ALIGN_TARGETS, BALANCES, BASE_TERMS, DATASETS, FUSIONS, METHODS

SMALL_IMAGE, TINY_IMAGE = 28, 16


def flatten(settings: Mapping[str, Any], prefix: str = "") -> dict[str, object]:
    """{"train": {"rounds": 3}} -> {"train.rounds": 3}."""
    flat: dict[str, object] = {}
    for key, value in settings.items():
        if isinstance(value, Mapping):
            flat.update(flatten(value, f"{prefix}{key}."))
        else:
            flat[f"{prefix}{key}"] = value
    return flat


def parse_words(words: list[str]) -> dict[str, object]:
    """The command line's `key=value` words."""
    settings: dict[str, object] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not key:
            raise UserError(f"'{word}': expected key=value, such as train.rounds=3")
        settings[key] = value
    return settings


def read_yaml(path: Path, kind: str) -> Any:
    """What a user's file holds; `kind` states in an error what it was meant to be."""
    try:
        return yaml.safe_load(path.read_text())
    except OSError as error:
        raise UserError(f"{kind} {path}: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError):
        raise UserError(f"{kind} {path}: is not YAML") from None


def read_preset(path: Path) -> dict[str, object]:
    """A preset, or the config.yaml of a run: nested keys, `method` among them."""
    content = read_yaml(path, "preset")
    if not isinstance(content, dict) or not isinstance(content.get("method"), str):
        raise UserError(f"preset {path}: must be a mapping whose 'method' names one")
    return flatten(content)


def resolve(method: str, settings: Mapping[str, object]) -> Config:
    """Defaults < data set < method < settings, checked; what was left unset is filled in."""
    entry = METHODS.get(method)
    check_words(method, settings)
    dataset = DATASETS.get(str(settings.get("data.name", DataOptions.name)))
    grouped = by_section({**dataset.defaults, **entry.defaults, **settings}, method)
    for term in entry.base_terms:
        BASE_TERMS.get(term)
    fusion = grouped[""].pop("fusion", DEFAULT_FUSION)
    general = build(GeneralOptions, grouped[""], "")
    data = build(DataOptions, grouped["data"], "data")
    if data.flip is None:
        data = replace(data, flip=dataset.flip)
    pixels = dataset.size or data.size
    train = build(TrainOptions, grouped["train"], "train")
    align = build(BALANCES.get(entry.balance), grouped["align"], "align")
    align.check(train.local_epochs)
    partition = fill_partition(grouped["partition"], general.seed)
    needs_public = entry.target is not None and ALIGN_TARGETS.get(entry.target).needs_public
    if needs_public and partition.kind != "file" and not partition.public:
        raise UserError(f"partition.public=0: method {method} needs a public share, such as 0.1")
    return Config(
        method=method,
        data=data,
        partition=partition,
        model=fill_model(grouped["model"], pixels),
        train=train,
        upload=fill_upload(grouped["upload"], pixels),
        align=align,
        fusion=resolve_fusions(fusion, grouped["fusion"]),
        general=general,
    )


def check_words(method: str, settings: Mapping[str, object]) -> None:
    """Refuse a wrong key or value before anything large is imported."""
    grouped = by_section(settings, method)
    refuse_other_methods_keys(method, grouped["align"])
    general = {key: value for key, value in grouped[""].items() if key != "fusion"}
    for name, owner in {**SECTIONS, "align": BALANCES.get(METHODS.get(method).balance)}.items():
        build(owner, grouped[name], name)
    build(GeneralOptions, general, "")


def refuse_other_methods_keys(method: str, values: Mapping[str, object]) -> None:
    """An align key that this method lacks and others have is no misspelling: name the others."""
    own = set(all_keys(method))
    for key, value in values.items():
        if f"align.{key}" not in own:
            others = [name for name in METHODS.names() if f"align.{key}" in all_keys(name)]
            if others:
                names = ", ".join(others)
                raise UserError(f"align.{key}={value}: method {method} has no such key; {names} have")


def by_section(settings: Mapping[str, object], method: str) -> dict[str, dict[str, object]]:
    """Settings by the word before the dot, "" for those without; unknown ones are refused."""
    grouped: dict[str, dict[str, object]] = {name: {} for name in ("", *SECTIONS, "align", "fusion")}
    general = {"fusion", *option_keys(GeneralOptions)}
    for key, value in settings.items():
        section, dot, name = key.partition(".") if "." in key else ("", "", key)
        if not dot and name in (*SECTIONS, "align"):
            raise UserError(f"{key}={value}: {key} is a section; say {key}.KEY=VALUE")
        if section not in grouped or (not dot and name not in general):
            raise unknown_key(key, value, all_keys(method))
        grouped[section][name] = value
    return grouped


def fill_partition(values: Mapping[str, object], seed: int) -> PartitionOptions:
    """A file implies its kind; the draw's seed is the experiment's unless it has its own."""
    options = build(PartitionOptions, values, "partition")
    if options.file is not None and "kind" not in values:
        options = replace(options, kind="file")
    if options.file is not None and options.kind != "file":
        raise UserError(f"partition.file={options.file}: needs partition.kind=file")
    return options if options.seed is not None else replace(options, seed=seed)


def fill_model(values: Mapping[str, object], pixels: int) -> ModelOptions:
    """A model by size where none is named; a user's file under its full path."""
    options = build(ModelOptions, values, "model")
    if options.name is None:
        return replace(options, name="small-cnn" if pixels <= SMALL_IMAGE else "resnet18")
    place, _, attribute = options.name.rpartition(":")
    if place.endswith(".py"):
        absolute = f"{Path(place).expanduser().absolute()}:{attribute}"
        return replace(options, name=absolute)
    return options


def fill_upload(values: Mapping[str, object], pixels: int) -> UploadOptions:
    """A sketch by size where none is named: its moments grow with the filters squared."""
    options = build(UploadOptions, values, "upload")
    filters = options.sketch_filters or (32 if pixels < TINY_IMAGE else 128)
    return replace(options, sketch_filters=filters)


def resolve_fusions(names: object, options: Mapping[str, object]) -> dict[str, Any]:
    """`fusion=a,b` and `fusion.a.q=0.5` -> one object each, the first the primary."""
    words = names if isinstance(names, list | tuple) else str(names).split(",")
    listed = [str(name).strip() for name in words if str(name).strip()]
    chosen = {name: FUSIONS.get(name) for name in dict.fromkeys(listed)}
    if not chosen:
        raise UserError(f"fusion={names}: name at least one of {', '.join(FUSIONS.names())}")
    own: dict[str, dict[str, object]] = {name: {} for name in chosen}
    for key, value in options.items():
        name, _, item = key.partition(".")
        if name not in own:
            FUSIONS.get(name)
            raise UserError(f"fusion.{key}={value}: {name} is not among fusion={names}")
        own[name][item] = value
    return {name: build(kind, own[name], f"fusion.{name}") for name, kind in chosen.items()}


def all_keys(method: str) -> list[str]:
    """Every key that `anchorfl run METHOD` takes."""
    owners = {**SECTIONS, "align": BALANCES.get(METHODS.get(method).balance)}
    nested = [f"{name}.{key}" for name, owner in owners.items() for key in option_keys(owner)]
    return [*nested, "fusion", *option_keys(GeneralOptions)]


def option_keys(owner: type) -> list[str]:
    return [key_of(item) for item in fields(owner)]
