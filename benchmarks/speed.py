"""How much faster the engine trains than a plain loop, on this machine: `make bench`.

    python benchmarks/speed.py            the table, and the check against the least ratios
    python benchmarks/speed.py --profile  where the time of the demo's training goes

A ratio compares two times of one run on one machine, which a slower or busier machine leaves as it
is; seconds are never compared. Both sides evaluate after every epoch: the plain loop every client's
model alone, the engine every fusion and every client.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass

import numpy as np
import torch
from plain import train_client
from rich.console import Console
from torch.profiler import ProfilerActivity, profile

from anchorfl.compute import choose_device, device_name, synchronise
from anchorfl.config import Config
from anchorfl.data import Dataset, ImageFacts, Split, augmentation_for, draw_partition, load_dataset
from anchorfl.engine import Federation
from anchorfl.report.tables import plain_table
from anchorfl.settings import resolve
from anchorfl.wire import Task

LEAST = 1.5
EPOCHS = 2
ON_GPU = torch.cuda.is_available()


@dataclass(frozen=True)
class Case:
    """A setting, and how much of the data set is used: enough for a steady clock, no more."""

    name: str
    data: str
    train: int
    test: int
    settings: dict[str, object]


CASES = [
    Case("digits, small-cnn", "digits", 1437, 360, {}),
    Case(
        "32x32 colour, ResNet-18",
        "cifar10",
        50_000 if ON_GPU else 256,
        10_000 if ON_GPU else 64,
        {} if ON_GPU else {"train.batch_size": 64},
    ),
]


def dataset_of(case: Case, config: Config) -> Dataset:
    """Digits as they are; noise in the shape of CIFAR-10, which takes the same time."""
    return load_dataset(config.data) if case.data == "digits" else noise(case.train, case.test)


def noise(train: int, test: int, classes: int = 10) -> Dataset:
    draw = np.random.default_rng(0)

    def split(count: int) -> Split:
        images = draw.integers(0, 256, (count, 3, 32, 32), dtype=np.uint8)
        return Split(images, np.arange(count) % classes)

    facts = ImageFacts((3, 32, 32), classes, (0.5,) * 3, (0.25,) * 3)
    return Dataset("noise", split(train), split(test), [str(k) for k in range(classes)], facts)


def federation_of(case: Case, **settings: object) -> Federation:
    config = resolve(
        "v4", {"data.name": case.data, "train.rounds": EPOCHS, **case.settings, **settings}
    )
    device = choose_device("auto")
    dataset = dataset_of(case, config)
    partition = draw_partition(dataset.train.labels, config.partition, 0.0, dataset.name)
    return Federation(config, dataset, partition, Task.prepare(config, dataset.facts), device)


def timed(work: Callable[[], object], device: torch.device) -> float:
    synchronise(device)
    started = time.perf_counter()
    work()
    synchronise(device)
    return time.perf_counter() - started


def plain_seconds(federation: Federation) -> float:
    """The plain loop over all clients, one after another."""
    task, train = federation.task, federation.dataset.train
    recipe = augmentation_for(task.facts.shape, bool(federation.config.data.flip))
    start = task.network().to(federation.device)
    workers = 8 if ON_GPU and len(train) > 10_000 else 0

    def work() -> None:
        for own in federation.partition.clients:
            if len(own):
                split = Split(train.images[own], train.labels[own])
                network, test = deepcopy(start), federation.dataset.test
                train_client(network, split, test, recipe, federation.config, EPOCHS, workers)

    return timed(work, federation.device)


def engine_seconds(federation: Federation) -> float:
    return timed(lambda: federation.run("nowhere"), federation.device)


def show_ratios(console: Console) -> bool:
    rows, kept = [], True
    for warm_up in (plain_seconds, engine_seconds):
        warm_up(federation_of(CASES[0]))
    for case in CASES:
        samples = EPOCHS * case.train
        plain, ratios = plain_seconds(federation_of(case)), []
        for precision in ("fp32", "bf16"):
            engine = engine_seconds(federation_of(case, **{"train.precision": precision}))
            ratio = plain / engine
            rate = f"{samples / plain:,.0f}", f"{samples / engine:,.0f}"
            rows.append([case.name, precision, *rate, f"{ratio:.2f}"])
            ratios.append(ratio)
        kept &= max(ratios) >= LEAST
    headings = ["training and evaluation", "engine in", "plain loop", "engine", "ratio"]
    title = (
        f"samples a second on {device_name(choose_device('auto'))}, {torch.get_num_threads()} threads"
    )
    console.print(plain_table(headings, rows, title))
    console.print(
        f"least ratio wanted of each setting's better row: {LEAST}: {'kept' if kept else 'MISSED'}"
    )
    return kept


def show_profile(console: Console) -> None:
    """The share of the demo's training that no torch operation accounts for."""
    federation = federation_of(CASES[0], **{"train.evaluate_every": 100, "train.rounds": 3})
    federation.run("nowhere")
    with profile(activities=[ProfilerActivity.CPU]) as watched:
        started = time.perf_counter()
        federation.run("nowhere")
        wall = time.perf_counter() - started
    events = watched.key_averages()
    inside = sum(event.self_cpu_time_total for event in events) / 1e6
    heavy = sorted(events, key=lambda event: -event.self_cpu_time_total)[:12]
    rows = [[e.key, f"{e.self_cpu_time_total / 1e4 / wall:.1f}", f"{e.count:,}"] for e in heavy]
    console.print(plain_table(["operation", "% of time", "calls"], rows, "training on digits"))
    console.print(f"outside torch operations: {100 * (1 - inside / wall):.0f} % of the time")


if __name__ == "__main__":
    if "--profile" in sys.argv:
        show_profile(Console(width=110))
    else:
        sys.exit(not show_ratios(Console(width=110)))
