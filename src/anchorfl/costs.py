"""What a fusion costs: bytes up, the server's seconds, and what every prediction takes."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from anchorfl.data.dataset import ImageStore
from anchorfl.devices import synchronise
from anchorfl.evaluation import Fused
from anchorfl.fusion import Fusion, stacked
from anchorfl.training import Trainer
from anchorfl.upload import Upload

MEASURED, MEASURED_ON_CPU = 256, 4
"""Images that are timed together."""


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
def cost_of(
    trainer: Trainer, fusion: Fusion, fused: Fused, uploads: Sequence[Upload], store: ImageStore
) -> Cost:
    """Times a batch, after one that warms up, and counts the operations of one image."""
    trainer.network.eval()
    count = MEASURED_ON_CPU if trainer.device.type == "cpu" else MEASURED
    some = torch.arange(min(len(store.labels), count), device=store.index_device)
    images = store.take(some)[0].float() / 255

    def predict(some: Tensor) -> None:
        features = [trainer.encode(weights, some) for weights in fused.encoders]
        fused.head(stacked(features, some), some)

    flops = count_flops(lambda: predict(images[:1]))
    predict(images)
    synchronise(trainer.device)
    started = time.perf_counter()
    predict(images)
    synchronise(trainer.device)
    milliseconds = 1000 * (time.perf_counter() - started) / len(images)
    return Cost(sent_bytes(fusion, uploads), fused.seconds, milliseconds, flops)


@torch.no_grad()
def count_flops(compute: Callable[[], object]) -> int:
    with FlopCounterMode(display=False) as counter:
        compute()
    return int(counter.get_total_flops())


def sent_bytes(fusion: Fusion, uploads: Sequence[Upload]) -> float:
    """What a client sends for this fusion alone, on average: weights if any, and statements."""
    total = 0
    for upload in uploads:
        weights = upload.weights if fusion.encoders([upload]) else {}
        statements = (upload.said(need) for need in fusion.needs)
        total += sum(value.nbytes for group in (weights, *statements) for value in group.values())
        total += upload.class_counts.nbytes
    return total / len(uploads)
