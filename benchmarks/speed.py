"""How much faster the engine trains than a plain loop, on this machine: `make bench`.

    python benchmarks/speed.py            the table, and the check against the least ratios
    python benchmarks/speed.py --profile  where the time of the demo's training goes

A ratio compares two times of one run on one machine, which a slower or busier machine leaves as it
is; seconds are never compared. Both sides evaluate after every epoch: the plain loop every client's
model alone, the engine every fusion and every client. `--tiny` does either on so few images that times
mean nothing, and asks for no ratio.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, replace

import torch
from plain import train_client
from rich.console import Console
from shared import noise, simulation_on, without_tiny
from torch.profiler import ProfilerActivity, profile

from anchorfl.compute import choose_device, device_name, synchronise
from anchorfl.config import Config
from anchorfl.data import Dataset, Split, augmentation_for, load_dataset
from anchorfl.report.tables import plain_table
from anchorfl.settings import resolve
from anchorfl.simulate import Simulation

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


NO_PICTURES = {"fusion.class-mean.border": 0}
"""Else class-mean asks every encoder about 1,000 synthetic pictures: most of the work on few images."""
CASES = [
    Case("digits, small-cnn", "digits", 1437, 360, {**NO_PICTURES}),
    Case(
        "32x32 colour, ResNet-18",
        "cifar10",
        50_000 if ON_GPU else 256,
        10_000 if ON_GPU else 64,
        {} if ON_GPU else {**NO_PICTURES, "train.batch_size": 64},
    ),
]
SMALL: dict[str, object] = {"model.name": "small-cnn", "fusion": "feature-mean"}
TINY = [
    Case("digits, small-cnn", "digits", 20, 10, SMALL),
    Case("32x32 colour, small-cnn", "cifar10", 20, 10, SMALL),
]


def dataset_of(case: Case, config: Config) -> Dataset:
    """So many of the digits; noise in the shape of CIFAR-10, which takes the same time."""
    if case.data != "digits":
        return noise(case.train, case.test)
    digits = load_dataset(config.data)
    return replace(digits, train=first(digits.train, case.train), test=first(digits.test, case.test))


def first(split: Split, count: int) -> Split:
    return Split(split.images[:count], split.labels[:count])


def simulation_of(case: Case, **settings: object) -> Simulation:
    words = {"data.name": case.data, "train.rounds": EPOCHS, **case.settings, **settings}
    config = resolve("v4", words)
    return simulation_on(dataset_of(case, config), config)


def timed(work: Callable[[], object], device: torch.device) -> float:
    synchronise(device)
    started = time.perf_counter()
    work()
    synchronise(device)
    return time.perf_counter() - started


def plain_seconds(simulation: Simulation) -> float:
    """The plain loop over all clients, one after another."""
    setup, config, train = simulation.setup, simulation.config, simulation.dataset.train
    data, test = config.data, simulation.dataset.test
    recipe = augmentation_for(setup.facts.shape, bool(data.flip), data.least_crop)
    start = setup.network(setup.task.encoder).to(simulation.device)
    workers = 8 if ON_GPU and len(train) > 10_000 else 0

    def work() -> None:
        for own in simulation.partition.clients:
            if len(own):
                split = Split(train.images[own], train.labels[own])
                train_client(deepcopy(start), split, test, recipe, config, EPOCHS, workers)

    return timed(work, simulation.device)


def engine_seconds(simulation: Simulation) -> float:
    return timed(lambda: simulation.run("nowhere"), simulation.device)


def show_ratios(console: Console, tiny: bool) -> bool:
    rows, kept, cases = [], True, TINY if tiny else CASES
    for warm_up in (plain_seconds, engine_seconds):
        warm_up(simulation_of(cases[0]))
    for case in cases:
        samples = EPOCHS * case.train
        plain, ratios = plain_seconds(simulation_of(case)), []
        for precision in ("fp32", "bf16"):
            engine = engine_seconds(simulation_of(case, **{"train.precision": precision}))
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
    if tiny:
        console.print("too few images for a ratio to mean anything")
        return True
    console.print(
        f"least ratio wanted of each setting's better row: {LEAST}: {'kept' if kept else 'MISSED'}"
    )
    return kept


def show_profile(console: Console, tiny: bool) -> None:
    """The share of the demo's training that no torch operation accounts for."""
    case, settings = (TINY if tiny else CASES)[0], {"train.evaluate_every": 100, "train.rounds": 3}
    simulation = simulation_of(case, **settings)
    simulation.run("nowhere")
    with profile(activities=[ProfilerActivity.CPU]) as watched:
        started = time.perf_counter()
        simulation.run("nowhere")
        wall = time.perf_counter() - started
    events = watched.key_averages()
    inside = sum(event.self_cpu_time_total for event in events) / 1e6
    heavy = sorted(events, key=lambda event: -event.self_cpu_time_total)[:12]
    rows = [[e.key, f"{e.self_cpu_time_total / 1e4 / wall:.1f}", f"{e.count:,}"] for e in heavy]
    console.print(plain_table(["operation", "% of time", "calls"], rows, "training on digits"))
    console.print(f"outside torch operations: {100 * (1 - inside / wall):.0f} % of the time")


def main(*words: str) -> None:
    named, tiny = without_tiny(words)
    console = Console(width=110)
    if "--profile" in named:
        show_profile(console, tiny)
    else:
        sys.exit(not show_ratios(console, tiny))


if __name__ == "__main__":
    main(*sys.argv[1:])
