"""A validated experiment: sections of typed options, and how defaults, presets and words combine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from anchorfl.errors import UserError
from anchorfl.methods import METHODS
from anchorfl.options import as_mapping, build, key_of, option, unknown_key

if TYPE_CHECKING:
    from anchorfl.balance import Balance
    from anchorfl.fusion import Fusion


@dataclass(frozen=True)
class DataOptions:
    name: str = option("digits", "data set: see anchorfl data list")
    root: str = option("data", "folder that holds the official files, or your own images")
    flip: bool | None = option(None, "mirror images in training; open: as the data set suggests")
    validation: float = option(
        0.0, "share of the training data held out to choose settings on", at_least=0, below=1
    )
    size: int = option(
        32, "side in pixels that a folder's images are resized to", at_least=4, below=2049
    )


@dataclass(frozen=True)
class PartitionOptions:
    kind: str = option(
        "dirichlet",
        "dirichlet, dirichlet-overlap, shards, iid, file",
        choices=("dirichlet", "dirichlet-overlap", "shards", "iid", "file"),
    )
    alpha: float = option(0.05, "Dirichlet concentration: smaller is more skewed", above=0)
    clients: int = option(5, "number of clients", at_least=1)
    labels: int = option(2, "labels a client, for shards", at_least=1)
    seed: int | None = option(None, "seed of the draw; open: the experiment's seed", at_least=0)
    public: float = option(
        0.0, "share of the training data taken off first for the server", at_least=0, below=1
    )
    file: str | None = option(None, "a saved partition.json, for kind file")

    def draw_name(self) -> str:
        return f"{self.kind}-{self.alpha:g}" if "dirichlet" in self.kind else self.kind


@dataclass(frozen=True)
class ModelOptions:
    name: str | None = option(
        None, "resnet18, small-cnn, or FILE.py:NAME; open: small-cnn up to 28 pixels, else resnet18"
    )
    weights: str | None = option(None, "a safetensors file of encoder weights to start from")


@dataclass(frozen=True)
class TrainOptions:
    rounds: int = option(10, "evaluation points on the clients' local training", at_least=1)
    local_epochs: int = option(1, "local epochs a round", at_least=1)
    batch_size: int = option(512, "samples a step (each is seen in two views)", at_least=1)
    lr: float = option(0.05, "learning rate", above=0)
    momentum: float = option(0.9, "momentum of SGD", at_least=0, below=1)
    schedule: str = option(
        "constant",
        "learning rate over the run: constant, linear, cosine",
        choices=("constant", "linear", "cosine"),
    )
    weight_decay: float = option(0.0, "L2 penalty on weights and prototypes", at_least=0)
    clip_norm: float = option(1.0, "largest gradient norm; 0 switches clipping off", at_least=0)
    clip: str = option(
        "global",
        "one norm for all, or one for each group (encoder, prototypes, sigmas): global, group",
        choices=("global", "group"),
    )
    evaluate_every: int = option(
        1, "rounds from one evaluation to the next; the first and the last always are", at_least=1
    )
    reset_optimizer: bool = option(False, "forget the momentum every round, as published")
    precision: str = option(
        "auto",
        "auto (bf16 on a GPU that has it, else fp32), fp32, tf32, bf16",
        choices=("auto", "fp32", "tf32", "bf16"),
    )
    graphs: bool = option(True, "on a GPU: replay steps as CUDA graphs, with kernels of our own")

    def evaluates(self, number: int) -> bool:
        """Whether a round (from 0) ends in an evaluation."""
        return number in (0, self.rounds - 1) or (number + 1) % self.evaluate_every == 0


@dataclass(frozen=True)
class UploadOptions:
    batchnorm: str = option(
        "recomputed",
        "statistics a client uploads: recomputed on its own data, or the running ones",
        choices=("recomputed", "running"),
    )
    min_count: int = option(
        10,
        "a class of fewer samples than this is told of by its count alone",
        at_least=1,
    )
    sketch_filters: int | None = option(
        None,
        "filters of the fixed sketch; open: 128, 32 for images under 16 pixels",
        at_least=1,
        below=2049,
    )


DEFAULT_FUSION = "sketch-guided,class-mean,feature-mean"
SECTIONS: dict[str, type] = {
    "data": DataOptions,
    "partition": PartitionOptions,
    "model": ModelOptions,
    "train": TrainOptions,
    "upload": UploadOptions,
}


@dataclass(frozen=True)
class GeneralOptions:
    seed: int = option(0, "seed of everything that is drawn", at_least=0)
    device: str = option("auto", "auto, cpu, cuda, cuda:1, mps")
    out: str | None = option(None, "run folder; open: a new one under runs/")
    track: str | None = option(
        None, "send the numbers to tensorboard or mlflow as well", choices=("tensorboard", "mlflow")
    )


@dataclass(frozen=True)
class Config:
    """One experiment, every value known."""

    method: str
    data: DataOptions
    partition: PartitionOptions
    model: ModelOptions
    train: TrainOptions
    upload: UploadOptions
    align: Balance
    fusion: dict[str, Fusion]
    general: GeneralOptions

    @property
    def seed(self) -> int:
        return self.general.seed

    @property
    def needs(self) -> set[str]:
        """What the fusions want in an upload beside weights and class counts."""
        return {need for fusion in self.fusion.values() for need in fusion.needs}

    @property
    def exchanges(self) -> int:
        """How often a client is asked: once, or again to describe its data under all encoders."""
        from anchorfl.statements import SECOND_STATEMENTS

        return 2 if self.needs & SECOND_STATEMENTS.keys() else 1

    def to_dict(self) -> dict[str, Any]:
        """The nested mapping that config.yaml holds and `resolve` takes back."""
        sections = {name: asdict(getattr(self, name)) for name in SECTIONS}
        fusions = {f"fusion.{name}": as_mapping(fusion) for name, fusion in self.fusion.items()}
        return {
            "method": self.method,
            **sections,
            "align": as_mapping(self.align),
            "fusion": ",".join(self.fusion),
            **{name: options for name, options in fusions.items() if options},
            **asdict(self.general),
        }

    def replace_general(self, **values: object) -> Config:
        return replace(self, general=replace(self.general, **values))  # type: ignore[arg-type]


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
    """What a file of a user's holds; `kind` says in an error what it was meant to be."""
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
    """Defaults < data set < method < settings, checked; what was left open is filled in."""
    from anchorfl.balance import BALANCES
    from anchorfl.data.catalog import DATASETS

    entry = METHODS.get(method)
    dataset = DATASETS.get(str(settings.get("data.name", DataOptions.name)))
    grouped = by_section({**dataset.defaults, **entry.defaults, **settings}, method)
    refuse_other_methods_keys(method, grouped["align"])
    fusion = grouped[""].pop("fusion", DEFAULT_FUSION)
    general = build(GeneralOptions, grouped[""], "")
    data = build(DataOptions, grouped["data"], "data")
    if data.flip is None:
        data = replace(data, flip=dataset.flip)
    train = build(TrainOptions, grouped["train"], "train")
    align = build(BALANCES.get(entry.balance), grouped["align"], "align")
    align.check(train.local_epochs)
    partition = fill_partition(grouped["partition"], general.seed)
    if entry.anchors == "bank" and partition.kind != "file" and not partition.public:
        raise UserError(f"partition.public=0: method {method} needs a public share, such as 0.1")
    return Config(
        method=method,
        data=data,
        partition=partition,
        model=fill_model(grouped["model"], dataset.size or data.size),
        train=train,
        upload=fill_upload(grouped["upload"], dataset.size or data.size),
        align=align,
        fusion=resolve_fusions(fusion, grouped["fusion"]),
        general=general,
    )


def refuse_other_methods_keys(method: str, values: Mapping[str, object]) -> None:
    """An align key that this method lacks and others have is no misspelling: name the others."""
    own = set(all_keys(method))
    for key, value in values.items():
        if f"align.{key}" not in own:
            others = [name for name in METHODS.names() if f"align.{key}" in all_keys(name)]
            if others:
                told = ", ".join(others)
                raise UserError(f"align.{key}={value}: method {method} has no such key; {told} have")


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
        return replace(options, name="small-cnn" if pixels <= 28 else "resnet18")
    place, _, attribute = options.name.rpartition(":")
    if place.endswith(".py"):
        absolute = f"{Path(place).expanduser().absolute()}:{attribute}"
        return replace(options, name=absolute)
    return options


def fill_upload(values: Mapping[str, object], pixels: int) -> UploadOptions:
    """A sketch by size where none is named: its moments grow with the filters squared."""
    options = build(UploadOptions, values, "upload")
    filters = options.sketch_filters or (32 if pixels < 16 else 128)
    return replace(options, sketch_filters=filters)


def resolve_fusions(names: object, options: Mapping[str, object]) -> dict[str, Fusion]:
    """`fusion=a,b` and `fusion.a.q=0.5` -> one object each, the first the primary."""
    from anchorfl.fusion import FUSIONS

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
    from anchorfl.balance import BALANCES

    owners = {**SECTIONS, "align": BALANCES.get(METHODS.get(method).balance)}
    nested = [f"{name}.{key}" for name, owner in owners.items() for key in option_keys(owner)]
    return [*nested, "fusion", *option_keys(GeneralOptions)]


def option_keys(owner: type) -> list[str]:
    return [key_of(item) for item in fields(owner)]
