"""From words and defaults to a checked experiment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anchorfl.config import (
    DEFAULT_FUSION,
    SECTIONS,
    Config,
    DataOptions,
    DescribeOptions,
    FlowerOptions,
    GeneralOptions,
    ModelOptions,
    PartitionOptions,
    ServerOptions,
    TrainOptions,
    UploadOptions,
)
from anchorfl.errors import UserError
from anchorfl.methods import Method
from anchorfl.options import build, key_of, unknown_key
from anchorfl.registry import (
    ALIGN_TARGETS,
    BALANCES,
    BASE_TERMS,
    DATASETS,
    FUSIONS,
    METHODS,
)
from anchorfl.settings.own_code import listed_fusions

if TYPE_CHECKING:
    from anchorfl.objective import AlignTarget, Balance

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


def resolve(method: str, settings: Mapping[str, object]) -> Config:
    """Defaults < data set < method < settings, checked; what was left unset is filled in."""
    entry = METHODS.get(method)
    check_words(method, settings)
    dataset = DATASETS.get(str(settings.get("data.name", DataOptions.name)), "data.name")
    grouped = by_section({**dataset.defaults, **entry.defaults, **settings}, method)
    for term in entry.base_terms:
        BASE_TERMS.get(term)
    model = build(ModelOptions, grouped["model"], "model")
    fusion = grouped[""].pop("fusion", default_fusions(len(model.names) > 1))
    general = build(GeneralOptions, grouped[""], "")
    data = build(DataOptions, grouped["data"], "data")
    if data.flip is None:
        data = replace(data, flip=dataset.flip)
    pixels = dataset.size or data.size
    if data.crop is None:
        data = replace(data, crop=usual_crop(pixels))
    train = build(TrainOptions, grouped["train"], "train")
    align, target = build_align(entry, grouped["align"])
    align.check(train.local_epochs)
    partition = fill_partition(grouped["partition"], general.seed)
    if target is not None and target.needs_public and partition.kind != "file" and not partition.public:
        raise UserError(f"partition.public=0: method {method} needs a public share, such as 0.1")
    return Config(
        method=method,
        data=data,
        partition=partition,
        model=fill_model(grouped["model"], pixels),
        train=train,
        upload=build(UploadOptions, grouped["upload"], "upload"),
        describe=fill_describe(grouped["describe"], pixels, model.weights is not None),
        server=build(ServerOptions, grouped["server"], "server"),
        flower=build(FlowerOptions, grouped["flower"], "flower"),
        align=align,
        target=target,
        fusion=resolve_fusions(fusion, grouped["fusion"]),
        general=general,
    )


def check_words(method: str, settings: Mapping[str, object]) -> None:
    """Refuse a wrong key or value before anything large is imported."""
    grouped = by_section(settings, method)
    refuse_other_methods_keys(method, grouped["align"])
    general = {key: value for key, value in grouped[""].items() if key != "fusion"}
    for name, owner in SECTIONS.items():
        build(owner, grouped[name], name)
    build_align(METHODS.get(method), grouped["align"])
    build(GeneralOptions, general, "")


def build_align(method: Method, values: Mapping[str, object]) -> tuple[Balance, AlignTarget | None]:
    """The balance and the align target, each with its own of the `align.` options."""
    known = align_keys(method)
    for key, value in values.items():
        if key not in known:
            raise unknown_key(f"align.{key}", value, [f"align.{name}" for name in known])
    kind, target = BALANCES.get(method.balance), target_of(method)
    own = set(option_keys(target)) if target else set()
    balance = build(kind, {key: values[key] for key in values if key not in own}, "align")
    if target is None:
        return balance, None
    return balance, build(target, {key: values[key] for key in values if key in own}, "align")


def target_of(method: Method) -> type[AlignTarget] | None:
    return None if method.target is None else ALIGN_TARGETS.get(method.target)


def align_keys(method: Method) -> list[str]:
    target = target_of(method)
    return [*option_keys(BALANCES.get(method.balance)), *(option_keys(target) if target else [])]


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
            raise UserError(f"{key}={value}: {key} is a section; write {key}.KEY=VALUE")
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
    return replace(options, name=",".join(in_full(name) for name in options.names))


def in_full(name: str) -> str:
    place, _, attribute = name.rpartition(":")
    return f"{Path(place).expanduser().absolute()}:{attribute}" if place.endswith(".py") else name


def fill_describe(values: Mapping[str, object], pixels: int, started: bool) -> DescribeOptions:
    """A sketch by size where none is named: its moments grow with the filters squared."""
    options = build(DescribeOptions, values, "describe")
    filters = options.filters or usual_filters(pixels)
    return replace(options, filters=filters, sums=options.sums or ("fp8" if started else "fp32"))


def usual_crop(pixels: int) -> float:
    """A fifth of the area, as FAFI has it; of the smallest images that would be three pixels."""
    return 0.6 if pixels <= 8 else 0.2


def usual_filters(pixels: int) -> int:
    return 32 if pixels < TINY_IMAGE else 128


def default_fusions(mixed: bool) -> str:
    """Of different encoders, those alone that can be made of them."""
    names = DEFAULT_FUSION.split(",")
    return ",".join(name for name in names if not mixed or FUSIONS.get(name).mixes)


def resolve_fusions(names: object, options: Mapping[str, object]) -> dict[str, Any]:
    """`fusion=a,b` and `fusion.a.q=0.5` -> one object each, the first the primary."""
    chosen = {name: FUSIONS.get(name, "fusion") for name in dict.fromkeys(listed_fusions(names))}
    if not chosen:
        raise UserError(f"fusion={names}: name at least one of {', '.join(FUSIONS.names())}")
    own: dict[str, dict[str, object]] = {name: {} for name in chosen}
    for key, value in options.items():
        name, _, item = key.rpartition(".")
        if not name:
            raise UserError(f"fusion.{key}={value}: is no option; write fusion.{key}.OPTION=VALUE")
        if name not in own:
            FUSIONS.get(name)
            raise UserError(f"fusion.{key}={value}: {name} is not among fusion={names}")
        own[name][item] = value
    return {name: build(kind, own[name], f"fusion.{name}") for name, kind in chosen.items()}


def all_keys(method: str) -> list[str]:
    """Every key that `anchorfl run METHOD` takes."""
    nested = [f"{name}.{key}" for name, owner in SECTIONS.items() for key in option_keys(owner)]
    align = [f"align.{key}" for key in align_keys(METHODS.get(method))]
    return [*nested, *align, "fusion", *option_keys(GeneralOptions)]


def option_keys(owner: type) -> list[str]:
    return [key_of(item) for item in fields(owner)]
