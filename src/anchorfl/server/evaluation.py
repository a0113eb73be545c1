"""Any number of fusions in one pass over the images, each encoder run once."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, partial

import torch
import torch.nn.functional as F
from torch import Tensor

from anchorfl.compute import images_at_once, synchronise
from anchorfl.config import Config
from anchorfl.data import ImageFacts, ImageStore, synthetic_pictures
from anchorfl.describe import Describer, Sums
from anchorfl.errors import UserError
from anchorfl.models import Encoder, Runners, build_network, public_name
from anchorfl.server.calibration import calibration_error, fit_temperature
from anchorfl.server.fusion import Fusion, Head, ServerView, sketch_sums, stacked
from anchorfl.server.robust import Belief, believe
from anchorfl.wire import Start, Upload, describer_for, shared_target

PICTURES = 1000
"""Synthetic pictures that an encoder is asked about."""


@dataclass(frozen=True)
class Evaluation:
    """The true classes of N images, every fusion's scores, and what each client predicts alone."""

    labels: Tensor
    scores: dict[str, Tensor]
    local: dict[int, Tensor]

    @cached_property
    def fused(self) -> dict[str, Tensor]:
        """The class that each fusion predicts."""
        return {name: scores.argmax(dim=1) for name, scores in self.scores.items()}

    def confusions(self) -> dict[str, Tensor]:
        """Counts by fusion, true class x predicted class."""
        return {name: self.confusion(predicted) for name, predicted in self.fused.items()}

    def confusion(self, predicted: Tensor) -> Tensor:
        classes = next(iter(self.scores.values())).shape[1]
        cells = torch.bincount(self.labels * classes + predicted, minlength=classes**2)
        return cells.view(classes, classes).double()

    def temperatures(self) -> dict[str, float]:
        """Those that make the most of these images' labels."""
        return {name: fit_temperature(scores, self.labels) for name, scores in self.scores.items()}

    def calibration_errors(self, temperatures: Mapping[str, float]) -> dict[str, float]:
        return {
            name: calibration_error((scores / temperatures[name]).softmax(dim=1), self.labels)
            for name, scores in self.scores.items()
        }

    def share_right(self, predicted: Tensor) -> float:
        return float((predicted == self.labels).double().mean())

    def accuracy(self) -> dict[str, float]:
        return {name: self.share_right(predicted) for name, predicted in self.fused.items()}

    def local_accuracy(self, clients: int) -> list[float | None]:
        """By client number; None for one that sent nothing."""
        return [
            self.share_right(self.local[client]) if client in self.local else None
            for client in range(clients)
        ]


def balanced_accuracy(confusion: Tensor) -> float:
    """Mean recall over the classes that occur."""
    totals = confusion.sum(dim=1)
    recall = confusion.diagonal()[totals > 0] / totals[totals > 0]
    return float(recall.mean())


def macro_f1(confusion: Tensor) -> float:
    """Mean over the classes that occur of 2 tp / (2 tp + fp + fn)."""
    totals = confusion.sum(dim=1)
    scores = 2 * confusion.diagonal() / (totals + confusion.sum(dim=0)).clamp(min=1)
    return float(scores[totals > 0].mean())


@dataclass(frozen=True)
class Fused:
    """A fusion of some uploads, ready to score, and how long the server took to make it."""

    encoders: list[Encoder]
    head: Head
    seconds: float


def runners_for(config: Config, facts: ImageFacts, device: torch.device) -> Runners:
    """The networks of an experiment, to encode with; their own weights count for nothing."""
    networks = {
        public_name(name): partial(build_network, name, facts, config.seed, freeze=config.model.freeze)
        for name in config.model.names
    }
    train = config.train
    return Runners(networks, device, train.precision, train.graphs, config.look)


def believed(config: Config, uploads: Sequence[Upload]) -> Belief:
    """By the experiment's `server.robust`."""
    return believe(config.server.robust, uploads, config.upload.min_count)


def server_view(
    config: Config, facts: ImageFacts, runners: Runners, start: Start | None = None
) -> ServerView:
    """What fusions may look at beside the uploads of an experiment."""

    @cache
    def describer() -> Describer:
        return describer_for(config, facts, start).to(runners.device)

    @cache
    def pictures() -> Tensor:
        made = synthetic_pictures(PICTURES, facts.shape, config.seed, runners.device)
        return made.to(runners.device).float() / 255

    @cache
    def anchors() -> Tensor | None:
        if config.target is None or not config.target.fixed:
            return None
        target = shared_target(config.target, config.seed, runners[""].network.prototypes)
        return None if target is None else target.to(runners.device)

    latest: tuple[Sequence[Upload], Sums] | None = None

    def sums(uploads: Sequence[Upload]) -> Sums:
        """Made once for all fusions of the same uploads."""
        nonlocal latest
        if latest is None or [*map(id, latest[0])] != [*map(id, uploads)]:
            latest = uploads, sketch_sums(uploads)
        return latest[1]

    return ServerView(
        config.seed, facts.shape, runners.device, runners.encode, describer, pictures, anchors, sums
    )


@torch.no_grad()
def fuse(
    fusions: Mapping[str, Fusion], belief: Belief, runners: Runners, view: ServerView
) -> dict[str, Fused]:
    """Every fusion of the uploads, as far as they are believed."""
    runners.evaluation_mode(upload.encoder for upload in belief.uploads if upload.trained)
    fused = {}
    for name, fusion in fusions.items():
        started = time.perf_counter()
        uploads = belief.of(fusion)
        encoders = fusion.encoders(uploads)
        head = fusion.head(uploads, encoders, view)
        synchronise(runners.device)
        fused[name] = Fused(encoders, head, time.perf_counter() - started)
    return fused


def identity(encoder: Encoder) -> tuple[int, ...]:
    """Equal for states that hold the same encoder in the same memory: it is run once for all."""
    weights = encoder.weights
    return tuple(weights[name].data_ptr() for name in sorted(weights) if name != "prototypes")


@torch.no_grad()
def evaluate(
    fused: Mapping[str, Fused],
    uploads: Sequence[Upload],
    runners: Runners,
    store: ImageStore,
    index: Tensor | None = None,
) -> Evaluation:
    """What all fusions and all clients predict for the images of a store (or some of them)."""
    alone = [upload for upload in uploads if upload.trained]
    runners.evaluation_mode(upload.encoder for upload in alone)
    owners = {upload.client: identity(upload.encoder) for upload in alone}
    distinct = dict(zip(owners.values(), (upload.encoder for upload in alone), strict=True))
    wanted: dict[str, list[tuple[int, ...]]] = {}
    for name, each in fused.items():
        wanted[name] = [identity(encoder) for encoder in each.encoders]
        distinct |= dict(zip(wanted[name], each.encoders, strict=True))
    scores: dict[str, list[Tensor]] = {name: [] for name in fused}
    local: dict[int, list[Tensor]] = {upload.client: [] for upload in alone}
    labels = []
    everything = torch.arange(len(store.labels)) if index is None else index
    parts = -(-len(everything) // images_at_once(runners.device, store.pixels))
    for part in everything.to(store.index_device).tensor_split(parts):
        images, own_labels = store.take(part)
        images = images.float() / 255
        raw = {key: runners.encode(encoder, images, False) for key, encoder in distinct.items()}
        features = {key: F.normalize(values, dim=1) for key, values in raw.items()}
        for name, each in fused.items():
            taken = raw if each.head.raw else features
            own = stacked([taken[key] for key in wanted[name]], images)
            scores[name].append(each.head(own, images))
        for upload in alone:
            own_scores = features[owners[upload.client]] @ upload.prototypes.T
            local[upload.client].append(own_scores.argmax(dim=1))
        labels.append(own_labels)
    whole = {name: torch.cat(parts).float().cpu() for name, parts in scores.items()}
    for name, found in whole.items():
        if not found.isfinite().all():
            raise UserError(f"fusion {name}: its scores are not finite; lower train.lr")
    return Evaluation(
        torch.cat(labels).cpu(),
        whole,
        {client: torch.cat(predicted).cpu() for client, predicted in local.items()},
    )
