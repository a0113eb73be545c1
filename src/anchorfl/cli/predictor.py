"""The commands that work with what a run has learned."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from anchorfl.cli.run import stoppable
from anchorfl.cli.words import Settings, Trust
from anchorfl.errors import UserError
from anchorfl.settings import import_named, parse_words

Run = Annotated[Path, typer.Argument(metavar="RUN", show_default=False)]
RunOrFile = Annotated[Path, typer.Argument(metavar="RUN|FILE.safetensors", show_default=False)]


def fuse(
    run: Run,
    settings: Settings = None,
    every: Annotated[bool, typer.Option("--all", help="Try every fusion.")] = False,
    without: Annotated[
        list[int] | None,
        typer.Option(help="A site that left: as if it had never been there.", show_default=False),
    ] = None,
    add: Annotated[
        list[Path] | None,
        typer.Option(help="An upload that came late: as if in time.", show_default=False),
    ] = None,
    export: Annotated[
        Path | None,
        typer.Option(help="Write the predictor of the first fusion there.", show_default=False),
    ] = None,
    table: Annotated[
        Path | None,
        typer.Option(help="Also write the table there: .md, .tex or .csv.", show_default=False),
    ] = None,
    trust: Trust = False,
) -> None:
    """Fuse a finished run's uploads again, by its own fusions or others; nothing is trained.

    \b
    Examples:
      anchorfl fuse runs/RUN --all --table fusions.md
      anchorfl fuse runs/RUN fusion=class-mean fusion.class-mean.q=1
      anchorfl fuse runs/RUN --without 3 --export model.safetensors
      anchorfl fuse runs/RUN --add late.safetensors
      anchorfl fuse runs/RUN data.root=/where/the/data/moved
    """
    from anchorfl.engine import fuse_again
    from anchorfl.predictor import check_target, predictor_again
    from anchorfl.predictor import export as write
    from anchorfl.report.console import make_console, say
    from anchorfl.report.fusions import show_fusions
    from anchorfl.report.numbers import megabytes
    from anchorfl.report.table_files import check_table_name
    from anchorfl.runs import read_run

    opened, words = read_run(run, trust), parse_words(settings or [])
    if export is not None:
        check_target(export)
    if table is not None:
        check_table_name(table)
    found = fuse_again(opened, words, every, without or (), add or ())
    show_fusions(make_console(), found, table)
    if export is not None:
        write(predictor_again(opened, found), export)
        say(make_console(), f"predictor: {export}, {megabytes(export.stat().st_size)}")


def predict(
    run: RunOrFile,
    files: Annotated[list[Path], typer.Argument(metavar="IMAGE|FOLDER...", show_default=False)],
    top: Annotated[int, typer.Option(help="Classes to show for each image.", min=1)] = 1,
    csv: Annotated[
        Path | None, typer.Option(help="Also write the predictions there.", show_default=False)
    ] = None,
    min_probability: Annotated[
        float, typer.Option(help="Answer unsure where the first class is less probable.", min=0, max=1)
    ] = 0.0,
    trust: Trust = False,
) -> None:
    """Predict the class of images, with its probability; files that are none are listed at the end.

    Pictures unlike all sites' images are marked, where the run's fusion describes images.

    \b
    Examples:
      anchorfl predict runs/RUN cat.png dog.jpg
      anchorfl predict model.safetensors photos --top 3 --csv predictions.csv
      anchorfl predict model.safetensors photos --min-probability 0.8
    """
    from anchorfl.predictor import open_predictor, predict_images
    from anchorfl.report.console import make_console
    from anchorfl.report.predictions import show_bad, show_predictions, write_predictions

    predictions, bad = predict_images(open_predictor(run, trust), files, top)
    console = make_console()
    show_predictions(console, predictions, min_probability)
    if csv is not None:
        write_predictions(predictions, csv, min_probability)
    if bad:
        show_bad(console, bad, len(predictions))
        raise typer.Exit(1)


def evaluate(
    run: RunOrFile,
    data: Annotated[
        str, typer.Option(help="A data set, or a folder of class folders.", show_default=False)
    ],
    root: Annotated[str, typer.Option(help="Folder that holds data sets.")] = "data",
    trust: Trust = False,
) -> None:
    """Measure a predictor on labelled images: accuracy, recall by class, calibration.

    \b
    Examples:
      anchorfl evaluate runs/RUN --data cifar10 --root DIR
      anchorfl evaluate model.safetensors --data photos
    """
    from anchorfl.predictor import labelled, measure, open_predictor
    from anchorfl.report.console import make_console
    from anchorfl.report.predictions import show_measures

    import_named({"data.name": data})
    predictor = open_predictor(run, trust)
    show_measures(make_console(), measure(predictor, labelled(predictor, data, root)))


def export(
    run: RunOrFile,
    file: Annotated[Path, typer.Argument(metavar="FILE", show_default=False)],
    probabilities: Annotated[
        bool, typer.Option("--probabilities", help="A graph that ends in probabilities, not scores.")
    ] = False,
    trust: Trust = False,
) -> None:
    """Write a run's predictor: .safetensors (to load again), .pt2 (torch.export) or .onnx.

    The file is loaded again and asked before it is kept.

    \b
    Examples:
      anchorfl export runs/RUN model.safetensors
      anchorfl export runs/RUN model.onnx --probabilities
    """
    from anchorfl.predictor import check_target, open_predictor
    from anchorfl.predictor import export as write
    from anchorfl.report.console import make_console, say
    from anchorfl.report.numbers import megabytes

    check_target(file, probabilities)
    write(open_predictor(run, trust).cpu(), file, probabilities)
    say(make_console(), f"predictor: {file}, {megabytes(file.stat().st_size)}")


def distill(
    run: Run,
    settings: Settings = None,
    images: Annotated[
        Path | None, typer.Option(help="Folder of unlabelled images.", show_default=False)
    ] = None,
    steps: Annotated[int, typer.Option(help="Steps of training.", min=1)] = 3000,
    out: Annotated[
        Path | None, typer.Option(help="File; by default student.safetensors in RUN.")
    ] = None,
    trust: Trust = False,
) -> None:
    """Train one model to answer as the fused clients do, on images without labels.

    They are the run's public share (partition.public), your own images, or else synthetic ones.
    The only key it takes is data.root, for data that moved.

    \b
    Examples:
      anchorfl distill runs/RUN
      anchorfl distill runs/RUN --images photos --steps 10000
    """
    from anchorfl.report.console import make_console
    from anchorfl.report.distilling import distill_and_report

    words = parse_words(settings or [])
    root = words.pop("data.root", None)
    for key, value in words.items():
        raise UserError(f"{key}={value}: distill takes data.root=DIR and its own options")
    place = out or run / "student.safetensors"
    moved = None if root is None else str(root)
    with stoppable():
        distill_and_report(make_console(), run, images, steps, place, moved, trust)
