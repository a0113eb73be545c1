"""What training costs as a federation grows, on this machine.

    python benchmarks/growth.py [--tiny] [method]

ResNet-18 on noise of CIFAR-10's shape; one epoch per round. The first round, in which steps are
recorded, is shown apart. `--tiny`: a small network on little noise, to see that it runs.
"""

from __future__ import annotations

import gc
import sys

import torch
from rich.console import Console
from shared import noise, simulation_on, without_tiny

from anchorfl.events import Event, RoundEnded
from anchorfl.report.tables import plain_table
from anchorfl.settings import resolve

BASE: dict[str, object] = {
    "partition.kind": "iid",
    "partition.clients": 5,
    "train.rounds": 4,
    "train.evaluate_every": 100,
}
TINY: dict[str, object] = {"model.name": "small-cnn", "fusion": "feature-mean", "train.rounds": 2}
ON_GPU = torch.cuda.is_available()
Case = tuple[str, int, int, dict[str, object]]


def cases(samples: int, clients: tuple[int, ...]) -> list[Case]:
    """A name, how many samples, how many classes, and what is set otherwise."""
    skewed: dict[str, object] = {"partition.kind": "dirichlet"}
    few, many = clients[0], clients[2]
    return [
        *((f"{count} clients", samples, 10, {"partition.clients": count}) for count in clients),
        *(
            (f"{count}, alpha 0.05", samples, 10, {**skewed, "partition.clients": count})
            for count in (few, many)
        ),
        ("a quarter of the samples", samples // 4, 10, {}),
        ("100 classes", samples, 100, {}),
        ("200 classes", samples, 200, {}),
        ("8 rounds", samples, 10, {"train.rounds": 8}),
    ]


def chosen(tiny: bool) -> list[Case]:
    """As much as this machine trains on in minutes."""
    if tiny:
        return cases(40, (5, 8, 10))
    return cases(50_000, (5, 20, 100, 500)) if ON_GPU else cases(400, (5, 20, 100))


def measure(case: Case, method: str, tiny: bool) -> list[float]:
    """First round's seconds, seconds of a later one, samples a second, GiB at most."""
    _, samples, classes, settings = case
    small = TINY if tiny else {}
    config = resolve(method, {**BASE, "data.name": "cifar10", **small, **settings})
    dataset = noise(samples, 20, classes, 8) if tiny else noise(samples, 200, classes)
    simulation = simulation_on(dataset, config)
    seconds: list[float] = []

    def listen(event: Event) -> None:
        if isinstance(event, RoundEnded):
            seconds.append(event.train_seconds)

    simulation.listeners = [listen]
    if ON_GPU:
        gc.collect()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    simulation.run("nowhere")
    later = sorted(seconds[1:])[len(seconds[1:]) // 2]
    gibibytes = torch.cuda.max_memory_allocated() / 2**30 if ON_GPU else 0.0
    return [seconds[0], later, samples / later, gibibytes]


def main(*words: str) -> None:
    named, tiny = without_tiny(words)
    method = named[0] if named else "v12-gamma"
    rows = []
    for case in chosen(tiny):
        first, later, rate, memory = measure(case, method, tiny)
        rows.append([case[0], f"{first:.2f}", f"{later:.2f}", f"{rate:,.0f}", f"{memory:.1f}"])
        print(rows[-1], flush=True)
    headings = ["", "first round, s", "a round, s", "samples/s", "GiB"]
    Console(width=110).print(
        plain_table(headings, rows, f"{method}, {'small-cnn' if tiny else 'ResNet-18'}")
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
