"""Any number of fusions of the same uploads, and one pass over images for all of them."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor

from anchorfl.compute import images_at_once, synchronise
from anchorfl.data import Shard, synthetic_pictures
from anchorfl.describe import Describer, Sums
from anchorfl.errors import UserError
from anchorfl.fusion import Fusion, Head, ServerView, sketch_sums, stacked
from anchorfl.measures import Evaluation
from anchorfl.messages import Upload
from anchorfl.nn import Runners
from anchorfl.prepare import Setup, shared_target
from anchorfl.server.robust import Belief
from anchorfl.tensors import Encoder

PICTURES = 1000
"""Synthetic pictures that an encoder is asked about."""


def server_view(setup: Setup, runners: Runners) -> ServerView:
    config, facts, device = setup.config, setup.facts, runners.device

    @cache
    def describer() -> Describer:
        return setup.describer().to(device)

    @cache
    def pictures() -> Tensor:
        made = synthetic_pictures(PICTURES, facts.shape, config.seed, device)
        return made.to(device).float() / 255

    @cache
    def anchors() -> Tensor | None:
        if config.target is None or not config.target.fixed:
            return None
        target = shared_target(config.target, config.seed, runners[""].network.prototypes)
        return None if target is None else target.to(device)

    latest: tuple[Sequence[Upload], Sums] | None = None

    def sums(uploads: Sequence[Upload]) -> Sums:
        """Made once for all fusions of the same uploads."""
        nonlocal latest
        if latest is None or [*map(id, latest[0])] != [*map(id, uploads)]:
            latest = uploads, sketch_sums(uploads)
        return latest[1]

    return ServerView(
        config.seed, facts.shape, device, runners.encode, describer, pictures, anchors, sums
    )


@dataclass(frozen=True)
class Fused:
    """A fusion of some uploads, ready to score, and how long the server took to make it."""

    encoders: list[Encoder]
    head: Head
    seconds: float


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
    fused: Mapping[str, Fused], uploads: Sequence[Upload], runners: Runners, images: Shard
) -> Evaluation:
    """What all fusions and all sites predict for some images."""
    alone = [upload for upload in uploads if upload.trained]
    runners.evaluation_mode(upload.encoder for upload in alone)
    owners = {upload.site: identity(upload.encoder) for upload in alone}
    distinct = dict(zip(owners.values(), (upload.encoder for upload in alone), strict=True))
    wanted: dict[str, list[tuple[int, ...]]] = {}
    for name, each in fused.items():
        wanted[name] = [identity(encoder) for encoder in each.encoders]
        distinct |= dict(zip(wanted[name], each.encoders, strict=True))
    scores: dict[str, list[Tensor]] = {name: [] for name in fused}
    local: dict[str, list[Tensor]] = {upload.site: [] for upload in alone}
    labels = []
    parts = -(-len(images) // images_at_once(runners.device, images.store.pixels))
    for some, own_labels in images.batches(parts):
        pixels = some.float() / 255
        raw = {key: runners.encode(encoder, pixels, False) for key, encoder in distinct.items()}
        features = {key: F.normalize(values, dim=1) for key, values in raw.items()}
        for name, each in fused.items():
            taken = raw if each.head.raw else features
            own = stacked([taken[key] for key in wanted[name]], pixels)
            scores[name].append(each.head(own, pixels))
        for upload in alone:
            own_scores = features[owners[upload.site]] @ upload.prototypes.T
            local[upload.site].append(own_scores.argmax(dim=1))
        labels.append(own_labels)
    whole = {name: torch.cat(parts).float().cpu() for name, parts in scores.items()}
    for name, found in whole.items():
        if not found.isfinite().all():
            raise UserError(f"fusion {name}: its scores are not finite; lower train.lr")
    return Evaluation(
        torch.cat(labels).cpu(),
        whole,
        {site: torch.cat(predicted).cpu() for site, predicted in local.items()},
    )
