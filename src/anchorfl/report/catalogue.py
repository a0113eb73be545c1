"""What `anchorfl methods` and `anchorfl data` show."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

from anchorfl.balance import BALANCES
from anchorfl.config import resolve
from anchorfl.data.catalog import DATASETS
from anchorfl.data.dataset import load_dataset
from anchorfl.data.fetch import fetch
from anchorfl.data.partition import draw_partition
from anchorfl.fusion import FUSIONS
from anchorfl.methods import METHODS
from anchorfl.options import describe
from anchorfl.report.console import say
from anchorfl.report.plots import draw_partition_figure
from anchorfl.report.tables import listing, partition_table


def first_line(thing: type) -> str:
    return (inspect.getdoc(thing) or "").splitlines()[0]


def show_methods(console: Console, name: str | None, fusions: bool) -> None:
    if fusions:
        show_fusions(console)
    elif name is None:
        rows = [(each, METHODS.get(each).summary) for each in METHODS.names()]
        console.print(listing(rows))
    else:
        show_method(console, name)


def show_method(console: Console, name: str) -> None:
    method = METHODS.get(name)
    balance = BALANCES.get(method.balance)
    options = describe(balance)
    rows = [
        (name, method.summary),
        ("formula", method.formula),
        ("balance", f"{method.balance}: {first_line(balance)}"),
        ("source", method.source),
    ]
    for key, default, text in options:
        value = method.defaults.get(f"align.{key}", default)
        rows.append((f"align.{key}={value}", text))
    console.print(listing(rows))


def show_fusions(console: Console) -> None:
    rows = []
    for name in FUSIONS.names():
        rows.append((name, first_line(FUSIONS.get(name))))
        for key, default, text in describe(FUSIONS.get(name)):
            rows.append((f"  fusion.{name}.{key}={default}", text))
    console.print(listing(rows))


def show_datasets(console: Console) -> None:
    rows = [(name, DATASETS.get(name).summary) for name in DATASETS.names()]
    console.print(listing(rows))


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
    draw = options.kind + (f", alpha {options.alpha:g}" if "dirichlet" in options.kind else "")
    title = f"{dataset.name}: {draw}, seed {options.seed}"
    console.print(partition_table(counts, dataset.class_names, title, console.width))
    held = f"{len(partition.public):,} public, {len(partition.validation):,} held out; "
    say(console, f"{held}hash {partition.hash[:16]}")
    if save is not None:
        partition.save(save, dataset.name, len(dataset.train))
        say(console, f"partition: {save}")
    path = draw_partition_figure(counts, dataset.class_names, title, figure)
    say(console, f"picture: {path}")
