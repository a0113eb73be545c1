"""From words and defaults to a checked experiment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, TypeVar

from anchorfl.config import DEFAULT_FUSION, SECTIONS, Config, DataOptions, GeneralOptions
from anchorfl.errors import UserError
from anchorfl.methods import METHODS, Method
from anchorfl.objective import ALIGN_TARGETS, BALANCES, BASE_TERMS, AlignTarget, Balance
from anchorfl.options import as_mapping, build, key_of, unknown_key
from anchorfl.settings.user_code import listed_fusions

T = TypeVar("T")
SMALL_IMAGE, TINY_IMAGE = 28, 16


def flatten(settings: Mapping[str, Any], prefix: str = "") -> dict[str, object]:
    """{"train": {"rounds": 3}} -> {"train.rounds": 3}."""
    flat: dict[str, object] = {}
    for key, value in settings.items():
        nested = isinstance(value, Mapping)
        flat |= flatten(value, f"{prefix}{key}.") if nested else {f"{prefix}{key}": value}
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


def resolve(
    method: str, settings: Mapping[str, object], needs: tuple[str, ...] | None = None
) -> Config:
    """Defaults < data set < method < settings, checked; what was left unset is filled in.

    A site is told what an upload `needs`; what a server makes of it is not looked at there.
    """
    from anchorfl.data import DATASETS, PARTITIONS

    entry = METHODS.get(method)
    check_words(method, settings)
    dataset = DATASETS.get(str(settings.get("data.name", DataOptions.name)), "data.name")
    grouped = by_section({**dataset.defaults, **entry.defaults, **settings}, method)
    for term in entry.base_terms:
        BASE_TERMS.get(term)
    fusions = listed_fusions(grouped[""].pop("fusion", None))
    general = build(GeneralOptions, grouped[""], "")
    parts: dict[str, Any] = {name: build(kind, grouped[name], name) for name, kind in SECTIONS.items()}
    pixels = dataset.size or parts["data"].size
    parts["data"] = filled(parts["data"], flip=dataset.flip, crop=usual_crop(pixels))
    sums = "fp8" if parts["model"].weights is not None else "fp32"
    parts["describe"] = filled(parts["describe"], filters=usual_filters(pixels), sums=sums)
    encoders = parts["model"].name and ",".join(map(in_full, parts["model"].names))
    parts["model"] = replace(parts["model"], name=encoders)
    if needs is None and not fusions:
        fusions = usual_fusions(len(parts["model"].names) > 1)
    align, target = build_align(entry, grouped["align"])
    align.check(parts["train"].local_epochs)
    partition = filled(parts["partition"], seed=general.seed)  # the draw's is the experiment's
    if partition.file is not None and "kind" not in grouped["partition"]:
        partition = replace(partition, kind="file")
    if partition.file is not None and partition.kind != "file":
        raise UserError(f"partition.file={partition.file}: needs partition.kind=file")
    parts["partition"] = partition
    PARTITIONS.get(partition.kind, "partition.kind")
    if target is not None and target.needs_public and partition.kind != "file" and not partition.public:
        raise UserError(f"partition.public=0: method {method} needs a public share, such as 0.1")
    config = Config(
        method=method,
        **parts,
        align=align,
        target=target,
        fusion=options_by_fusion(fusions, grouped["fusion"]),
        needs=needs or (),
        general=general,
    )
    if dataset.size is not None:  # of the user's own images it is left to their number
        config = fill_by_images(config, dataset.size, USUAL_BATCH * STEPS * config.partition.clients)
    return config if needs is not None else with_fusions(config)


def usual_fusions(mixed: bool) -> list[str]:
    """Of different encoders, those alone that can be made of them."""
    from anchorfl.fusion import FUSIONS

    return [name for name in DEFAULT_FUSION.split(",") if not mixed or FUSIONS.get(name).mixes]


def with_fusions(config: Config) -> Config:
    """The server's part: its fusions, checked, and what they need of an upload."""
    from anchorfl.fusion import built_fusions

    built = built_fusions(config.fusion)
    needs = set(METHODS.get(config.method).needs).union(*(each.needs for each in built.values()))
    if config.server.robust != "off":
        needs.add("sketch_moments")
    fusion = {name: as_mapping(each) for name, each in built.items()}
    return replace(config, fusion=fusion, needs=tuple(sorted(needs)))


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


def refuse_unused(words: Iterable[str], *datasets: str) -> None:
    """A key of the user's that no data set of the run, or of the sweep, reads."""
    from anchorfl.data import DATASETS

    known = [DATASETS.get(name) for name in datasets]
    unread = {"data.root"} if all(spec.embedded for spec in known) else set()
    if all(spec.size is not None for spec in known):
        unread |= {"data.size", "data.holdout"}
    for key in unread & set(words):
        raise UserError(f"{key}: nothing reads it with data.name={', '.join(dict.fromkeys(datasets))}")


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
        if key == "model" and str(value).lower() in ("on", "off", "true", "false"):  # YAML reads off
            section, dot, name = "model", ".", "save"
            value = str(value).lower() in ("on", "true")
        if not dot and name in (*SECTIONS, "align"):
            raise UserError(f"{key}={value}: {key} is a section; write {key}.KEY=VALUE")
        if section not in grouped or (not dot and name not in general):
            raise unknown_key(key, value, all_keys(method))
        grouped[section][name] = value
    return grouped


FEW_IMAGES, USUAL_BATCH, TASK_BATCH = 5_000, 512, 64
SMALLEST_BATCH, STEPS = 32, 16


def fill_by_images(config: Config, pixels: int, images: int | None) -> Config:
    """An encoder and a batch size where none is set, by what is trained on and never by the machine.

    Few images teach a large network little, and one batch of all of them would be a round's only step:
    a batch is a sixteenth of a client's share, a power of two from 32 to 512. Of a task nobody knows
    how many images its sites hold (None).
    """
    name, size = config.model.name, config.train.batch_size
    if name is None:
        small = pixels <= SMALL_IMAGE or (images is not None and images < FEW_IMAGES)
        name = "small-cnn" if small else "resnet18"
    if size is None and images is None:
        size = TASK_BATCH
    elif size is None:
        share = (images or 0) // config.partition.clients // STEPS
        size = min(max(1 << share.bit_length(), SMALLEST_BATCH), USUAL_BATCH)
    return replace(config.replace_train(batch_size=size), model=replace(config.model, name=name))


def in_full(name: str) -> str:
    place, _, attribute = name.rpartition(":")
    return f"{Path(place).expanduser().absolute()}:{attribute}" if place.endswith(".py") else name


def filled(options: T, **usual: object) -> T:
    """The options, with what is usual for those left unset."""
    unset = {name: value for name, value in usual.items() if getattr(options, name) is None}
    return replace(options, **unset)  # type: ignore[type-var]


def usual_crop(pixels: int) -> float:
    """A fifth of the area, as FAFI has it; of the smallest images that would be three pixels."""
    return 0.6 if pixels <= 8 else 0.2


def usual_filters(pixels: int) -> int:
    """A sketch by the size of the images: its moments grow with the filters squared."""
    return 32 if pixels < TINY_IMAGE else 128


def options_by_fusion(
    names: Sequence[str], options: Mapping[str, object]
) -> dict[str, Mapping[str, object]]:
    """`fusion=a,b` and `fusion.a.q=0.5` -> the options of each, the first the primary."""
    own: dict[str, dict[str, object]] = {name: {} for name in names}
    for key, value in options.items():
        name, _, item = key.rpartition(".")
        if not name:
            raise UserError(f"fusion.{key}={value}: is no option; write fusion.{key}.OPTION=VALUE")
        if name not in own:
            raise UserError(f"fusion.{key}={value}: {name} is not among fusion={','.join(names)}")
        own[name][item] = value
    return dict(own)


def all_keys(method: str) -> list[str]:
    """Every key that `anchorfl run METHOD` takes."""
    nested = [f"{name}.{key}" for name, owner in SECTIONS.items() for key in option_keys(owner)]
    align = [f"align.{key}" for key in align_keys(METHODS.get(method))]
    return [*nested, *align, "fusion", *option_keys(GeneralOptions)]


def option_keys(owner: type) -> list[str]:
    return [key_of(item) for item in fields(owner)]
