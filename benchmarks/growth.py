"""What training costs as a federation grows, on this machine.

    python benchmarks/growth.py [method]

ResNet-18 on noise of CIFAR-10's shape; one epoch per round. The first round, in which steps are
recorded, is shown apart.
"""

from __future__ import annotations

import gc
import sys

import torch
from rich.console import Console
from speed import noise

from anchorfl.compute import choose_device
from anchorfl.data import draw_partition
from anchorfl.engine import Event, Federation, RoundEnded
from anchorfl.report.tables import plain_table
from anchorfl.settings import resolve
from anchorfl.wire import Task

BASE: dict[str, object] = {
    "partition.kind": "iid",
    "partition.clients": 5,
    "train.rounds": 4,
    "train.evaluate_every": 100,
}
ON_GPU = torch.cuda.is_available()
SAMPLES = 50_000 if ON_GPU else 400
CASES: list[tuple[str, int, int, dict[str, object]]] = [
    ("5 clients", SAMPLES, 10, {}),
    ("20 clients", SAMPLES, 10, {"partition.clients": 20}),
    ("100 clients", SAMPLES, 10, {"partition.clients": 100}),
    ("500 clients", SAMPLES, 10, {"partition.clients": 500}),
    ("5, alpha 0.05", SAMPLES, 10, {"partition.kind": "dirichlet"}),
    ("100, alpha 0.05", SAMPLES, 10, {"partition.kind": "dirichlet", "partition.clients": 100}),
    ("a quarter of the samples", SAMPLES // 4, 10, {}),
    ("100 classes", SAMPLES, 100, {}),
    ("200 classes", SAMPLES, 200, {}),
    ("8 rounds", SAMPLES, 10, {"train.rounds": 8}),
]


def measure(method: str, samples: int, classes: int, settings: dict[str, object]) -> list[float]:
    """First round's seconds, seconds of a later one, samples a second, GiB at most."""
    config = resolve(method, {**BASE, "data.name": "cifar10", **settings})
    dataset = noise(samples, 200, classes)
    partition = draw_partition(dataset.train.labels, config.partition, 0.0, "noise")
    task, device = Task.prepare(config, dataset.facts), choose_device("auto")
    federation = Federation(config, dataset, partition, task, device)
    seconds: list[float] = []

    def listen(event: Event) -> None:
        if isinstance(event, RoundEnded):
            seconds.append(event.train_seconds)

    federation.listeners = [listen]
    if ON_GPU:
        gc.collect()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    federation.run("nowhere")
    later = sorted(seconds[1:])[len(seconds[1:]) // 2]
    gibibytes = torch.cuda.max_memory_allocated() / 2**30 if ON_GPU else 0.0
    return [seconds[0], later, samples / later, gibibytes]


def main(method: str = "v12-gamma") -> None:
    rows = []
    for name, samples, classes, settings in CASES:
        first, later, rate, memory = measure(method, samples, classes, settings)
        rows.append([name, f"{first:.2f}", f"{later:.2f}", f"{rate:,.0f}", f"{memory:.1f}"])
        print(rows[-1], flush=True)
    headings = ["", "first round, s", "a round, s", "samples/s", "GiB"]
    Console(width=110).print(plain_table(headings, rows, f"{method}, ResNet-18"))


if __name__ == "__main__":
    main(*sys.argv[1:])
