"""What `anchorfl methods` and `anchorfl data` show."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

from anchorfl.balance import BALANCES
from anchorfl.config import TrainOptions, resolve
from anchorfl.data.catalog import DATASETS
from anchorfl.data.dataset import load_dataset
from anchorfl.data.fetch import fetch
from anchorfl.data.partition import draw_partition
from anchorfl.errors import UserError
from anchorfl.fusion import FUSIONS
from anchorfl.methods import METHODS
from anchorfl.options import describe
from anchorfl.registry import Registry
from anchorfl.report.console import say
from anchorfl.report.plots import draw_partition_figure
from anchorfl.report.tables import listing, partition_table

T = TypeVar("T")
BASE_TERMS = {
    "classification": "CE(f P', y)",
    "supervised_contrast": "SupCon(f, y; 0.07)",
    "prototype_feature": "CE(f P' / 1, y)",
    "prototype_self": "CE(P P', 0..C-1)",
}
ALIGN_TERMS = {
    "etf": "mean over present classes and dimensions of (P - anchor)^2",
    "bank": "-log of e(f g) / (e(f g) + sum of e(f b) over the bank), e(x) = e^2x, g the other view",
}


def first_line(thing: type) -> str:
    return (inspect.getdoc(thing) or "").splitlines()[0]


def told(registry: Registry[T], tell: Callable[[T], str]) -> list[tuple[str, str]]:
    """Every name with a line; another package's entry that is broken says so and stops nobody."""
    rows = []
    for name in registry.names():
        try:
            rows.append((name, tell(registry.get(name))))
        except UserError as error:
            rows.append((name, str(error)))
    return rows


def show_methods(console: Console, name: str | None, fusions: bool) -> None:
    if fusions:
        show_fusions(console)
    elif name is None:
        rows = told(METHODS, lambda method: method.summary)
        rows.append(("torchjd:NAME", "B and A combined by a TorchJD scalarizer (extra: balance)"))
        console.print(listing(rows))
    else:
        show_method(console, name)


def show_method(console: Console, name: str) -> None:
    """What the method minimises, as its balance's docstring writes it, and every default."""
    method = METHODS.get(name)
    balance = BALANCES.get(method.balance)
    say(console, f"{name}: {method.summary}\n")
    say(console, f"B              {' + '.join(BASE_TERMS[term] for term in method.base_terms)}")
    if method.anchors is not None:
        say(console, f"A              {ALIGN_TERMS[method.anchors]}")
    say(console, f"lambda         {inspect.getdoc(balance)}\n")
    defaults = {f"align.{key}": (value, text) for key, value, text in describe(balance)}
    for key, value in method.defaults.items():
        defaults[key] = (str(value), defaults.get(key, ("", "default of this method"))[1])
    clipping = {key: (value, text) for key, value, text in describe(TrainOptions)}["clip"]
    defaults.setdefault("train.clip", clipping)
    console.print(listing([(f"{key}={value}", text) for key, (value, text) in defaults.items()]))


def show_fusions(console: Console) -> None:
    rows = []
    for name, line in told(FUSIONS, first_line):
        rows.append((name, line))
        if name in FUSIONS:
            rows += [
                (f"  fusion.{name}.{key}={default}", text)
                for key, default, text in describe(FUSIONS.get(name))
            ]
    console.print(listing(rows))


def show_datasets(console: Console) -> None:
    console.print(listing(told(DATASETS, lambda spec: spec.summary)))


def fetch_with_progress(console: Console, name: str, root: Path) -> None:
    spec = DATASETS.get(name)
    say(console, f"terms of use of {name}: {spec.terms}")
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
    )
    with Progress(*columns, console=console) as bar:
        tasks = {file.file: bar.add_task(file.file, total=None) for file in spec.downloads}

        def progress(file: str, done: int, total: int | None) -> None:
            bar.update(tasks[file], completed=done, total=total)

        folder = fetch(name, root, progress)
    say(console, f"{name} is in {folder}")


def show_partition(
    console: Console, words: Mapping[str, object], figure: Path, save: Path | None
) -> None:
    config = resolve("v4", words)
    dataset = load_dataset(config.data)
    options = config.partition
    partition = draw_partition(dataset.train.labels, options, config.data.validation, dataset.name)
    counts = partition.label_table(dataset.train.labels, len(dataset.class_names))
    title = f"{dataset.name}: {options.draw_name()}, seed {options.seed}"
    console.print(partition_table(counts, dataset.class_names, title, console.width))
    held = f"{len(partition.public):,} public, {len(partition.validation):,} held out; "
    say(console, f"{held}hash {partition.hash[:16]}")
    if save is not None:
        partition.save(save, dataset.name, dataset.train.labels)
        say(console, f"partition: {save}")
    path = draw_partition_figure(counts, dataset.class_names, title, figure)
    say(console, f"picture: {path}")
