"""From words, presets and defaults to a checked experiment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from anchorfl.config import (
    CONFIG_FORMAT,
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
    imported,
    is_in_a_file,
    suggestion,
)

if TYPE_CHECKING:
    from anchorfl.objective import AlignTarget, Balance

SMALL_IMAGE, TINY_IMAGE = 28, 16
BESIDE_SETTINGS = ("format", "code")
"""What config.yaml holds that is no setting."""
PRESETS = Path(__file__).parent / "presets"
"""The presets and sweeps that come with the package."""


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


class PlainLoader(yaml.SafeLoader):
    """Values as they are written: an alias could stand for a billion of them."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("an alias")
        return super().compose_node(parent, index)


def preset_names() -> list[str]:
    """presets/v4-digits.yaml and the others that come with the package."""
    found = (path.relative_to(PRESETS.parent) for path in PRESETS.rglob("*.yaml"))
    return sorted(path.as_posix() for path in found)


def preset_place(path: Path, kind: str) -> Path:
    """The file itself; where there is none, `presets/NAME.yaml` is the package's own."""
    if path.exists() or path.parts[:1] != ("presets",):
        return path
    known = preset_names()
    if path.as_posix() not in known:
        raise UserError(f"{kind} {path}: No such file{suggestion(path.as_posix(), known)}")
    return PRESETS.parent / path


def read_yaml(path: Path, kind: str) -> Any:
    """What a user's file holds; `kind` states in an error what it was meant to be."""
    try:
        return PlainLoader(preset_place(path, kind).read_text()).get_single_data()
    except OSError as error:
        raise UserError(f"{kind} {path}: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError, ValueError, RecursionError):
        raise UserError(f"{kind} {path}: is not valid YAML (without aliases)") from None


def read_preset(path: Path) -> dict[str, object]:
    """A preset, or the config.yaml of a run: nested keys, `method` among them."""
    return preset_settings(read_yaml(path, "preset"), path)


def preset_settings(content: Any, path: Path) -> dict[str, object]:
    """The settings in a preset's content."""
    if not isinstance(content, dict) or not isinstance(content.get("method"), str):
        raise UserError(f"preset {path}: needs a line such as method: v4")
    settings = flatten({key: value for key, value in content.items() if key not in BESIDE_SETTINGS})
    if "upload.sketch_filters" in settings:  # its name up to format 3
        settings["describe.filters"] = settings.pop("upload.sketch_filters")
    earlier = format_of(content) if "device" in content else CONFIG_FORMAT
    if earlier < 5:
        settings.pop("fusion.sketch-guided.ridge", None)  # its guide, up to format 3
        settings.pop("fusion.sketch-guided.guidance", None)  # scaled otherwise, up to format 4
    if earlier < 6:
        settings = {**whole_images(settings), **settings}
    return of_format_2(settings) if is_format_2(content) else settings


def format_of(content: Mapping[str, object]) -> int:
    """Of the config.yaml of a run; up to format 2 none is written."""
    written = content.get("format", 2)
    return written if isinstance(written, int) else CONFIG_FORMAT


def whole_images(settings: Mapping[str, object]) -> dict[str, object]:
    """What runs up to format 5, and tasks, meant where no data set had a crop and a zoom of its own."""
    name, size = str(settings.get("data.name")), settings.get("data.size")
    own = DATASETS.get(name).size if name in DATASETS else None
    pixels = own or (size if isinstance(size, int) else DataOptions.size)
    return {"data.crop": usual_crop(pixels), "model.zoom": 1.0}


def is_format_2(content: Mapping[str, object]) -> bool:
    """Whether this is the config.yaml of a run (its device is always written) from before format 3."""
    return "format" not in content and "device" in content


def of_format_2(settings: dict[str, object]) -> dict[str, object]:
    """The config.yaml of a run from before format 3, in today's words.

    Alignment then pulled the batch's classes alone, V11 annealed by the epoch, and feature-mean
    normalised each client's features first.
    """
    entry = METHODS.get(str(settings["method"]))
    if entry.target == "etf":
        settings.setdefault("align.classes", "batch")
    if "align.progress" in entry.defaults:
        settings.setdefault("align.progress", "epoch")
    names = [name.strip() for name in str(settings.get("fusion", "")).split(",") if name.strip()]
    renamed = ["normalised-feature-mean" if name == "feature-mean" else name for name in names]
    return {**settings, "fusion": ",".join(renamed)} if names else settings


def import_named(settings: Mapping[str, object]) -> None:
    """Import the method, fusions and data set that are FILE.py:NAME; for the user's own words alone.

    A method is a `Method`, or a balance that is to pull prototypes to the shared anchors.
    """
    method = str(settings.get("method"))
    if is_in_a_file(method) and method not in METHODS:
        found = imported(method, "method")
        if not isinstance(found, Method):
            if not hasattr(found, "readings"):
                raise UserError(f"method={method}: is neither a Method nor a Balance")
            BALANCES.register(method)(found)
            found = Method(summary=str(found.__doc__).split("\n")[0], balance=method)
        METHODS.register(method)(found)
    for name in listed_fusions(settings.get("fusion", "")):
        if is_in_a_file(name) and name not in FUSIONS:
            found = imported(name, "fusion")
            if not hasattr(found, "head"):
                raise UserError(f"fusion={name}: is no Fusion")
            FUSIONS.register(name)(found)
    data = str(settings.get("data.name"))
    if is_in_a_file(data) and data not in DATASETS:
        found = imported(data, "data.name")
        if not hasattr(found, "reader"):
            raise UserError(f"data.name={data}: is no DatasetSpec")
        DATASETS.register(data)(found)


def own_code(settings: Mapping[str, object]) -> dict[str, str]:
    """The SHA-256 of each FILE.py that settings name and that is there, by its name."""
    models = str(settings.get("model.name")).split(",")
    words = [str(settings.get("method")), str(settings.get("data.name"))]
    names = [*words, *listed_fusions(settings.get("fusion", "")), *models]
    files = sorted({name.strip().rpartition(":")[0] for name in names if is_in_a_file(name)})
    found = {file: Path(file).expanduser() for file in files}
    return {
        file: sha256(path.read_bytes()).hexdigest() for file, path in found.items() if path.is_file()
    }


def listed_fusions(names: object) -> list[str]:
    words = names if isinstance(names, list | tuple) else str(names).split(",")
    return [str(name).strip() for name in words if str(name).strip()]


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
    return replace(options, filters=filters, sums=options.sums or ("fp16" if started else "fp32"))


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
