"""What `anchorfl data` shows: the data sets, a download, who holds what."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

from anchorfl.data import (
    EXAMPLE,
    Checked,
    draw_name,
    draw_partition,
    fetch_dataset,
    load_dataset,
    split_by_table,
    write_example,
)
from anchorfl.registry import DATASETS
from anchorfl.report.console import say
from anchorfl.report.methods import lines_of
from anchorfl.report.png_plots import plot_partition
from anchorfl.report.tables import listing, partition_table, plain_table
from anchorfl.settings import resolve


def show_datasets(console: Console) -> None:
    console.print(listing(lines_of(DATASETS, lambda spec: spec.summary)))


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

        folder = fetch_dataset(name, root, progress)
    say(console, f"{name} is in {folder}")


def show_partition(
    console: Console, words: Mapping[str, object], figure: Path, save: Path | None
) -> None:
    config = resolve("v4", words)
    dataset = load_dataset(config.data)
    options = config.partition
    labels, sites = dataset.train.labels, dataset.train.sites
    partition = draw_partition(labels, options, config.data.validation, dataset.name, sites)
    counts = partition.label_table(dataset.train.labels, len(dataset.class_names))
    title = f"{dataset.name}: {draw_name(options)}, seed {options.seed}"
    console.print(partition_table(counts, dataset.class_names, title, console.width))
    held = f"{len(partition.public):,} public samples, {len(partition.validation):,} held out; "
    say(console, f"{held}hash {partition.hash[:16]}")
    if save is not None:
        partition.save(save, dataset.name, dataset.train.labels)
        say(console, f"partition: {save}")
    path = plot_partition(counts, dataset.class_names, title, figure)
    say(console, f"figure: {path}")


def make_example(console: Console, folder: Path) -> None:
    write_example(folder)
    for site, digits in EXAMPLE.items():
        say(console, f"{folder / site}: digits {', '.join(map(str, digits))}")
    say(console, f"class names: {folder / 'classes.txt'}")


def split_folder(console: Console, folder: Path, table: Path, out: Path) -> None:
    partition, sites, labels = split_by_table(folder, table)
    partition.save(out, "folder", labels)
    for number, site in enumerate(sites):
        say(console, f"client {number}: {site}, {len(partition.clients[number]):,} images")
    say(console, f"partition: {out}")


def show_check(console: Console, root: Path, found: Checked) -> bool:
    """What a folder holds and what is wrong with it; False where a run would be refused."""
    rows = [[name, f"{train:,}", f"{test:,}"] for name, (train, test) in found.counts.items()]
    title = f"{root}: data.name={found.kind}, {len(rows):,} classes"
    console.print(plain_table(["class", "to train on", "to test on"], rows, title))
    for path, why in found.bad:
        say(console, f"bad: {path}: {why}")
    for words, names in (
        ("a folder without an image", found.empty),
        ("no test image, so its accuracy is not measured", found.untested),
    ):
        for name in names:
            say(console, f"class {name}: {words}")
    if found.passed_over:
        kinds = ", ".join(sorted({path.suffix or path.name for path in found.passed_over}))
        say(console, f"passed over, no pictures: {len(found.passed_over):,} ({kinds})")
    say(
        console,
        "Training does not mirror them, unless data.flip=true says that left and right are alike.",
    )
    say(console, f"cannot be read: {len(found.bad):,}" if found.bad else "All pictures can be read.")
    return not found.bad
