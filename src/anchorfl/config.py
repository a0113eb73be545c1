"""One experiment, every value known: sections of typed options, and what follows from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from anchorfl.events import TRACKERS
from anchorfl.objective import SCHEDULES, AlignTarget, Balance
from anchorfl.options import as_mapping, option


@dataclass(frozen=True)
class DataOptions:
    name: str = option("digits", "data set: see anchorfl data list; or FILE.py:NAME")
    root: str = option("data", "folder that holds the official files, or your own images")
    flip: bool | None = option(
        None, "mirror images in training; unset: as the data set suggests, not for images of your own"
    )
    crop: float | None = option(
        None,
        "smallest share of an image's area that a training view keeps; unset: as the data set suggests,"
        " else 0.2 (0.6 up to 8 pixels)",
        above=0,
        at_most=1,
    )
    validation: float = option(
        0.0, "share of the training data held out to choose settings on", at_least=0, below=1
    )
    size: int = option(
        32, "side in pixels that a folder's images are resized to", at_least=4, below=2049
    )
    holdout: float = option(
        0.2, "share of each site's images kept for testing, for data.name=sites", above=0, below=1
    )

    @property
    def least_crop(self) -> float:
        assert self.crop is not None  # a resolved experiment has it
        return self.crop


@dataclass(frozen=True)
class PartitionOptions:
    kind: str = option(
        "dirichlet",
        "dirichlet, dirichlet-overlap, shards, iid, sites, file, diary, diary-overlap, diary-scrambled",
    )
    alpha: float = option(0.05, "Dirichlet concentration: smaller is more skewed", above=0)
    clients: int = option(5, "number of clients", at_least=1)
    labels: int = option(2, "labels per client, for shards", at_least=1)
    seed: int | None = option(None, "seed of the draw; unset: the experiment's seed", at_least=0)
    public: float = option(
        0.0, "share of the training data taken off first for the server", at_least=0, below=1
    )
    file: str | None = option(None, "a saved partition.json, for kind file")


@dataclass(frozen=True)
class ModelOptions:
    name: str | None = option(
        None,
        "resnet18, small-cnn or FILE.py:NAME, or several with commas, dealt out to clients in turn; "
        "unset: small-cnn up to 28 pixels or 5,000 images of your own, else resnet18",
    )
    weights: str | None = option(
        None, "what the encoders start from: a file of anchorfl start, or safetensors of weights"
    )
    freeze: bool = option(False, "leave the encoder as it starts: only prototypes are trained and sent")
    zoom: float = option(
        1.0,
        "share of an image's side, in its middle, that trained encoders are shown, enlarged",
        above=0,
        at_most=1,
    )
    mirrored: bool = option(
        False, "fuse the features of an image and its mirror image as one, where data.flip"
    )

    save: bool = option(True, "save the fused model, model.safetensors; `model=off` does not")

    @property
    def names(self) -> list[str]:
        """The encoders of the federation, dealt out to clients in turn; none before it is chosen."""
        return [name.strip() for name in (self.name or "").split(",") if name.strip()]

    def name_of(self, client: int) -> str:
        return self.names[client % len(self.names)]


@dataclass(frozen=True)
class TrainOptions:
    rounds: int = option(
        10, "rounds of local training; one-shot methods send nothing back between them", at_least=1
    )
    local_epochs: int = option(1, "local epochs per round", at_least=1)
    batch_size: int | None = option(
        None,
        "samples per step (each is seen in two views); unset: 512, of your own images by their number",
        at_least=1,
    )
    lr: float = option(0.05, "learning rate", above=0)
    momentum: float = option(0.9, "momentum of SGD", at_least=0, below=1)
    schedule: str = option(
        "constant", "learning rate over the run: constant, linear, cosine", choices=SCHEDULES
    )
    weight_decay: float = option(0.0, "L2 penalty on weights and prototypes", at_least=0)
    clip_norm: float = option(1.0, "largest gradient norm; 0 switches clipping off", at_least=0)
    clip: str = option(
        "global",
        "clip by one norm over all, or by one per group (encoder, prototypes, sigmas): global, group",
        choices=("global", "group"),
    )
    evaluate_every: int = option(
        1, "rounds from one evaluation to the next; the first and the last always are", at_least=1
    )
    evaluate_at: str | None = option(
        None, "rounds to evaluate instead, such as 0,9,14; the last always is"
    )
    evaluate_inside: bool = option(
        False, "after every local epoch, measure each client alone on its training and on test images"
    )
    checkpoint_every: int | None = option(
        None,
        "rounds from one checkpoint to the next; unset: 1 on a CPU, 10 on a GPU",
        at_least=1,
    )
    augment: bool = option(True, "train on augmented views; false: on the images as they are")
    reset_optimizer: bool = option(False, "reset the momentum every round, as the published code does")
    precision: str = option(
        "auto",
        "auto (bf16 on a GPU that has it, else fp32), fp32, tf32, bf16",
        choices=("auto", "fp32", "tf32", "bf16"),
    )
    graphs: bool = option(True, "on a GPU: replay steps as CUDA graphs, with custom kernels")

    @property
    def batch(self) -> int:
        assert self.batch_size is not None  # a resolved experiment has it
        return self.batch_size

    def evaluates(self, number: int) -> bool:
        """Whether a round (from 0) ends in an evaluation."""
        if self.evaluate_at is not None:
            return number == self.rounds - 1 or str(number) in self.evaluate_at.split(",")
        return number in (0, self.rounds - 1) or (number + 1) % self.evaluate_every == 0


@dataclass(frozen=True)
class UploadOptions:
    batchnorm: str = option(
        "recomputed",
        "BatchNorm statistics in an upload: recomputed on the client's own data, or running",
        choices=("recomputed", "running"),
    )
    min_count: int = option(
        10, "classes with fewer samples contribute their count alone to an upload", at_least=1
    )
    telemetry: bool = option(
        True, "send losses, lambda and norms of every round along; a guard and a diagnosis need them"
    )


@dataclass(frozen=True)
class DescribeOptions:
    filters: int | None = option(
        None,
        "filters of the sketch, without a start; unset: 128, 32 for images under 16 pixels",
        at_least=1,
        below=2049,
    )
    width: int = option(
        3000, "numbers that describe an image, with a start: bytes grow as its square", at_least=1
    )
    sums: str | None = option(
        None,
        "bits of sums: fp32; fp16, as a factor; fp8, the same with a start's description in 8;"
        " unset: fp8 with model.weights, else fp32",
        choices=("fp32", "fp16", "fp8"),
    )

    @property
    def sketch_filters(self) -> int:
        assert self.filters is not None  # a resolved experiment has it
        return self.filters


@dataclass(frozen=True)
class ServerOptions:
    min_sites: int = option(1, "uploads that must be admitted before anything is fused", at_least=1)
    timeout: float = option(
        3600.0, "seconds that a server on Flower waits for sites, and then for each answer", above=0
    )
    max_samples: int = option(10_000_000, "samples that one site may name at most", at_least=1)
    robust: str = option(
        "off",
        "what is done about sites that may lie (docs/security.md): off, capped, cross-checked",
        choices=("off", "capped", "cross-checked"),
    )


@dataclass(frozen=True)
class FlowerOptions:
    cpus: float = option(1.0, "CPU cores that a client takes, with engine=flower", above=0)
    gpus: float | None = option(
        None, "GPUs that a client takes; unset: an equal share of one, if there is one", at_least=0
    )


@dataclass(frozen=True)
class GeneralOptions:
    seed: int = option(0, "random seed", at_least=0)
    device: str = option("auto", "auto, cpu, cuda, cuda:1, mps")
    threads: int | None = option(
        None,
        "CPU threads; unset: 1 for images up to 28 pixels, else the cores that are free at the start",
        at_least=1,
    )
    engine: str = option(
        "in-process",
        "in-process, or flower: every client a node of Flower's simulation runtime",
        choices=("in-process", "flower"),
    )
    out: str | None = option(None, "run folder; unset: a new one under runs/")
    label: str | None = option(None, "what tables call this run instead of its method's name")
    track: str | None = option(
        None, "send the numbers to tensorboard or mlflow as well", choices=TRACKERS
    )


CONFIG_FORMAT = 6
"""Of config.yaml: raised when a setting changes its meaning. No other format is read."""
DEFAULT_FUSION = "sketch-guided,class-mean,feature-mean"
SECTIONS: dict[str, type] = {
    "data": DataOptions,
    "partition": PartitionOptions,
    "model": ModelOptions,
    "train": TrainOptions,
    "upload": UploadOptions,
    "describe": DescribeOptions,
    "server": ServerOptions,
    "flower": FlowerOptions,
}


@dataclass(frozen=True)
class Config:
    """One experiment, every value known.

    `align` sets lambda and `target` is what clients align to; both have their options under `align.`.
    `fusion` has the options of each fusion by name, the first of which makes the model; `needs` names
    the statistics that these and the method ask of an upload.
    """

    method: str
    data: DataOptions
    partition: PartitionOptions
    model: ModelOptions
    train: TrainOptions
    upload: UploadOptions
    describe: DescribeOptions
    server: ServerOptions
    flower: FlowerOptions
    align: Balance
    target: AlignTarget | None
    fusion: Mapping[str, Mapping[str, object]]
    needs: tuple[str, ...]
    general: GeneralOptions

    @property
    def seed(self) -> int:
        return self.general.seed

    def to_dict(self) -> dict[str, Any]:
        """The nested mapping that config.yaml holds and `resolve` takes back."""
        sections = {name: asdict(getattr(self, name)) for name in SECTIONS}
        return {
            "method": self.method,
            **sections,
            "align": {**as_mapping(self.align), **(as_mapping(self.target) if self.target else {})},
            "fusion": ",".join(self.fusion),
            **{f"fusion.{name}": dict(options) for name, options in self.fusion.items() if options},
            **asdict(self.general),
        }

    def replace_general(self, **values: object) -> Config:
        return replace(self, general=replace(self.general, **values))  # type: ignore[arg-type]

    def replace_train(self, **values: object) -> Config:
        return replace(self, train=replace(self.train, **values))  # type: ignore[arg-type]
