"""The commands `anchorfl data ...`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from anchorfl.cli.plain import Commands
from anchorfl.cli.words import Settings
from anchorfl.settings import import_named, parse_words

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
    from anchorfl.report import datasets
    from anchorfl.report.console import make_console

    datasets.show_datasets(make_console())


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
    from anchorfl.report import datasets
    from anchorfl.report.console import make_console

    import_named({"data.name": name})
    datasets.fetch_with_progress(make_console(), name, root)


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
    from anchorfl.report import datasets
    from anchorfl.report.console import make_console
    from anchorfl.runs import folder_name

    if "=" in name:
        settings, name = [name, *(settings or [])], "digits"
    words = {"data.name": name, **parse_words(settings or [])}
    import_named(words)
    datasets.show_partition(
        make_console(), words, figure or Path(f"partition-{folder_name(name)}.png"), save
    )


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
    from anchorfl.report import datasets
    from anchorfl.report.console import make_console

    if not datasets.show_check(make_console(), folder, check_images(folder, holdout)):
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
    from anchorfl.report import datasets
    from anchorfl.report.console import make_console

    datasets.make_example(make_console(), folder)


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
    from anchorfl.report import datasets
    from anchorfl.report.console import make_console

    datasets.split_folder(make_console(), folder, table, out)
