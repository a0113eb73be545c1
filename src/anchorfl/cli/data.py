"""The commands `anchorfl data ...`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from anchorfl.cli.plain import Commands, Settings
from anchorfl.report.console import make_console, say
from anchorfl.settings import import_named, parse_words, resolve

data_app = Commands(
    "Data sets and how they are shared over clients.\n\n"
    "\b\nExamples:\n  anchorfl data list\n  anchorfl data show digits partition.alpha=0.1",
)


@data_app.command("list")
def data_list() -> None:
    """List the data sets.

    \b
    Example:
      anchorfl data list
    """
    from anchorfl.data import DATASETS
    from anchorfl.report.methods import lines_of
    from anchorfl.report.tables import listing

    make_console().print(listing(lines_of(DATASETS, lambda spec: spec.summary)))


@data_app.command("fetch")
def data_fetch(
    name: Annotated[str, typer.Argument(show_default=False)],
    root: Annotated[Path, typer.Option(help="Folder that holds data sets.")] = Path("data"),
) -> None:
    """Download a data set's official files, or go on where an earlier try broke off.

    \b
    Examples:
      anchorfl data fetch cifar10
      anchorfl data fetch svhn --root /data
    """
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    from anchorfl.data import DATASETS, fetch_dataset

    import_named({"data.name": name})
    spec, console = DATASETS.get(name), make_console()
    say(console, f"terms of use of {name}: {spec.terms}")
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=console) as bar:
        tasks = {file.file: bar.add_task(file.file, total=None) for file in spec.downloads}

        def progress(file: str, done: int, total: int | None) -> None:
            bar.update(tasks[file], completed=done, total=total)

        folder = fetch_dataset(name, root, progress)
    say(console, f"{name} is in {folder}")


@data_app.command("show")
def data_show(
    name: Annotated[str, typer.Argument(show_default=False)] = "digits",
    settings: Settings = None,
    figure: Annotated[Path | None, typer.Option(help="Figure to write.")] = None,
    save: Annotated[Path | None, typer.Option(help="Also save the partition as JSON.")] = None,
) -> None:
    """Print and plot who holds how many samples of which label.

    \b
    Examples:
      anchorfl data show digits
      anchorfl data show cifar10 data.root=DIR partition.alpha=0.1 partition.seed=3
      anchorfl data show digits partition.kind=shards partition.labels=2 --save partition.json
    """
    from anchorfl.data import draw_name, draw_partition, load_dataset
    from anchorfl.report.figures import plot_partition
    from anchorfl.report.tables import partition_table
    from anchorfl.runs import folder_name

    if "=" in name:
        settings, name = [name, *(settings or [])], "digits"
    words = {"data.name": name, **parse_words(settings or [])}
    import_named(words)
    config, console = resolve("v4", words), make_console()
    dataset, options = load_dataset(config.data), config.partition
    labels, names = dataset.train.labels, dataset.class_names
    partition = draw_partition(
        labels, options, config.data.validation, dataset.name, dataset.train.sites
    )
    counts = partition.label_table(labels, len(names))
    title = f"{dataset.name}: {draw_name(options)}, seed {options.seed}"
    console.print(partition_table(counts, names, title, console.width))
    held = f"{len(partition.public):,} public samples, {len(partition.validation):,} held out; "
    say(console, f"{held}hash {partition.hash[:16]}")
    if save is not None:
        partition.save(save, dataset.name, labels)
        say(console, f"partition: {save}")
    place = figure or Path(f"partition-{folder_name(name)}.png")
    say(console, f"figure: {plot_partition(counts, names, title, place)}")


@data_app.command("check")
def data_check(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", show_default=False)],
    holdout: Annotated[
        float, typer.Option(help="Share kept for testing at each site.", min=0, max=1)
    ] = 0.2,
) -> None:
    """Look through a folder of your own images: bad files, empty classes, classes without test images.

    The folder holds a folder per class, or train/ and test/ of them, or SITE/CLASS/picture.

    \b
    Example:
      anchorfl data check my-pictures
    """
    from anchorfl.data import check_images
    from anchorfl.report.datasets import show_check

    if not show_check(make_console(), folder, check_images(folder, holdout)):
        raise typer.Exit(1)


@data_app.command("example")
def data_example(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", show_default=False)],
) -> None:
    """Write digits as pictures at three sites, to try docs/deploy.md with.

    \b
    Example:
      anchorfl data example example
    """
    from anchorfl.data import EXAMPLE, write_example

    write_example(folder)
    console = make_console()
    for site, digits in EXAMPLE.items():
        say(console, f"{folder / site}: digits {', '.join(map(str, digits))}")
    say(console, f"class names: {folder / 'classes.txt'}")


@data_app.command("split")
def data_split(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", show_default=False)],
    table: Annotated[Path, typer.Argument(metavar="SITES.csv", show_default=False)],
    out: Annotated[Path, typer.Option("--out", "-o", help="File to write.")] = Path("partition.json"),
) -> None:
    """Write partition.json for a folder of images from a table of file and site.

    \b
    Example:
      anchorfl data split pictures sites.csv -o partition.json
      anchorfl run v4 data.name=folder data.root=pictures partition.file=partition.json
    """
    from anchorfl.data import split_by_table

    partition, sites, labels = split_by_table(folder, table)
    partition.save(out, "folder", labels)
    console = make_console()
    for number, site in enumerate(sites):
        say(console, f"client {number}: {site}, {len(partition.clients[number]):,} images")
    say(console, f"partition: {out}")
