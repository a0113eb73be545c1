"""What a fusion costs: bytes up, the server's seconds, and what every prediction takes."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from anchorfl.compute import count_flops, synchronise
from anchorfl.fusion import Fusion, Head, stacked
from anchorfl.messages import Upload
from anchorfl.nn import Runners
from anchorfl.server.evaluation import Fused
from anchorfl.tensors import Encoder, section

MEASURED, MEASURED_ON_CPU = 256, 4
"""Images that are timed together."""
TIMES = 3
"""How often; the fastest counts, the others waited for something else."""


@dataclass(frozen=True)
class Cost:
    """Of one fusion; `fusion_bytes` is what a client sends for it alone, on average.

    `prediction_flops` counts multiplications and additions of convolutions and matrix products.
    """

    fusion_bytes: float
    server_seconds: float
    prediction_ms: float
    prediction_flops: int


@torch.no_grad()
def costs_of(
    fusions: Mapping[str, Fusion],
    fused: Mapping[str, Fused],
    uploads: Sequence[Upload],
    runners: Runners,
    pictures: Tensor,
) -> dict[str, Cost]:
    """A prediction takes its encoders, of which one of each network is measured, and the head."""
    device = runners.device
    images = pictures[: MEASURED_ON_CPU if device.type == "cpu" else MEASURED]
    trained = {upload.network: upload.encoder for upload in uploads if upload.trained}
    runners.evaluation_mode(trained.values())
    features = {name: runners.encode(encoder, images) for name, encoder in trained.items()}
    encoding = {
        name: measured(partial(encode, runners, encoder, images), len(images), device)
        for name, encoder in trained.items()
    }
    costs = {}
    for name, each in fused.items():
        own = stacked([features[encoder.name] for encoder in each.encoders], images)
        parts = [measured(partial(score, each.head, own, images), len(images), device)]
        parts += [encoding[encoder.name] for encoder in each.encoders]
        milliseconds, flops = (sum(values) for values in zip(*parts, strict=True))
        sent = sent_bytes(fusions[name], uploads)
        costs[name] = Cost(sent, each.seconds, milliseconds, int(flops))
    return costs


def encode(runners: Runners, encoder: Encoder, images: Tensor, count: int) -> None:
    runners.encode(encoder, images[:count])


def score(head: Head, features: Tensor, images: Tensor, count: int) -> None:
    head(features[:, :count], images[:count])


def measured(compute: Callable[[int], object], count: int, device: torch.device) -> tuple[float, int]:
    """Milliseconds per image among `count`, after a pass that warms up, and the operations of one."""
    flops = count_flops(lambda: compute(1))
    compute(count)
    synchronise(device)
    seconds = []
    for _ in range(TIMES):
        started = time.perf_counter()
        compute(count)
        synchronise(device)
        seconds.append(time.perf_counter() - started)
    return 1000 * min(seconds) / count, flops


def sent_bytes(fusion: Fusion, uploads: Sequence[Upload]) -> float:
    """What a client sends for this fusion alone, on average: weights if any, and statistics."""
    total = 0
    for upload in uploads:
        weights = upload.trained if fusion.encoders([upload]) else {}
        statistics = (section(upload.statistics, need) for need in fusion.needs)
        total += sum(value.nbytes for group in (weights, *statistics) for value in group.values())
        total += upload.class_counts.nbytes
    return total / len(uploads)
