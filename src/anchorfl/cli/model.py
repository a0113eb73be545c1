"""The commands that work with what a run has learned."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from anchorfl.cli.plain import ModelCode, Settings, Trust, stoppable
from anchorfl.errors import UserError
from anchorfl.report.console import make_console, say

if TYPE_CHECKING:
    from anchorfl.model import FusedModel

Run = Annotated[Path, typer.Argument(metavar="RUN", show_default=False)]
RunOrFile = Annotated[Path, typer.Argument(metavar="RUN|FILE.safetensors", show_default=False)]


def fuse(
    run: Run,
    settings: Settings = None,
    every: Annotated[bool, typer.Option("--all", help="Try every fusion.")] = False,
    without: Annotated[
        list[str] | None,
        typer.Option(help="A site that left: as if it had never been there.", show_default=False),
    ] = None,
    add: Annotated[
        list[Path] | None,
        typer.Option(help="An upload that came late: as if in time.", show_default=False),
    ] = None,
    export: Annotated[
        Path | None,
        typer.Option(help="Write the model of the first fusion there.", show_default=False),
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
    from anchorfl.model import check_target
    from anchorfl.model import export as write
    from anchorfl.report.fusions import show_fusions
    from anchorfl.report.numbers import megabytes
    from anchorfl.report.table_files import check_table_name
    from anchorfl.runs import read_run
    from anchorfl.settings import parse_words
    from anchorfl.simulate import fuse_again

    opened, words = read_run(run, trust), parse_words(settings or [])
    if export is not None:
        check_target(export)
    if table is not None:
        check_table_name(table)
    found = fuse_again(opened, words, every, without or (), add or ())
    show_fusions(make_console(), found, table)
    if export is not None:
        write(found.model(), export)
        say(make_console(), f"model: {export}, {megabytes(export.stat().st_size)}")


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
    model: ModelCode = None,
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
    from anchorfl.compute import choose_device
    from anchorfl.model import predict_images
    from anchorfl.report.predictions import show_bad, show_predictions, write_predictions

    opened = open_model(run, model, trust).to(choose_device("auto"))
    predictions, bad = predict_images(opened, files, top)
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
    model: ModelCode = None,
    trust: Trust = False,
) -> None:
    """Measure a model on labelled images: accuracy, recall by class, calibration.

    \b
    Examples:
      anchorfl evaluate runs/RUN --data cifar10 --root DIR
      anchorfl evaluate model.safetensors --data photos
    """
    from anchorfl.compute import choose_device
    from anchorfl.model import labelled, measure
    from anchorfl.report.measures import show_measures
    from anchorfl.settings import import_named

    import_named({"data.name": data})
    opened = open_model(run, model, trust).to(choose_device("auto"))
    show_measures(make_console(), measure(opened, labelled(opened, data, root)))


def export(
    run: RunOrFile,
    file: Annotated[Path, typer.Argument(metavar="FILE", show_default=False)],
    probabilities: Annotated[
        bool, typer.Option("--probabilities", help="A graph that ends in probabilities, not scores.")
    ] = False,
    model: ModelCode = None,
    trust: Trust = False,
) -> None:
    """Write a run's model: .safetensors (to load again), .pt2 (torch.export) or .onnx.

    The file is loaded again and asked before it is kept.

    \b
    Examples:
      anchorfl export runs/RUN model.safetensors
      anchorfl export runs/RUN model.onnx --probabilities
    """
    from anchorfl.model import check_target
    from anchorfl.model import export as write
    from anchorfl.report.numbers import megabytes

    check_target(file, probabilities)
    write(open_model(run, model, trust), file, probabilities)
    say(make_console(), f"model: {file}, {megabytes(file.stat().st_size)}")


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
    model: ModelCode = None,
    trust: Trust = False,
) -> None:
    """Train one network to answer as the fused model does, on images without labels.

    They are the run's public share (partition.public), your own images, or else synthetic ones.
    The only key it takes is data.root, for data that moved.

    \b
    Examples:
      anchorfl distill runs/RUN
      anchorfl distill runs/RUN --images photos --steps 10000
    """
    from rich.progress import Progress

    from anchorfl.compute import choose_device
    from anchorfl.model import check_target, export, measure
    from anchorfl.model import distill as train_student
    from anchorfl.report.measures import show_students
    from anchorfl.runs import read_run
    from anchorfl.settings import parse_words
    from anchorfl.simulate import data_of, unlabelled

    words = parse_words(settings or [])
    root = words.pop("data.root", None)
    for key, value in words.items():
        raise UserError(f"{key}={value}: distill takes data.root=DIR and its own options")
    place, console = out or run / "student.safetensors", make_console()
    check_target(place)
    opened, teacher = read_run(run, trust), open_model(run, model, trust)
    dataset = data_of(opened, None if root is None else str(root))
    source = unlabelled(opened, dataset, teacher.shape, images)
    say(console, f"{steps:,} steps on {source.name}")
    keep = place.with_name(f".{place.name}.unfinished")
    code = [*code_in(model), *(trusted_code(run) if trust else [])]
    with stoppable(), Progress(console=console, transient=True) as progress:
        bar = progress.add_task("distilling", total=steps)

        def on_step(step: int) -> None:
            progress.update(bar, completed=step + 1)

        student = train_student(teacher, opened.config, source, steps, on_step, keep, code)
    export(student, place)
    keep.unlink(missing_ok=True)
    device = choose_device("auto")
    models = {"fused": teacher.to(device), "student": student.to(device)}
    show_students(console, {name: (measure(each, dataset.test), each) for name, each in models.items()})
    say(console, f"student: {place}")


def open_model(place: Path, code: str | None = None, trust: bool = False) -> FusedModel:
    """Of a run's folder, or a file of its own.

    Code of an encoder is imported where the user names it, or trusts what the run's folder names.
    """
    from anchorfl.model import FusedModel

    file = place / "model.safetensors" if place.is_dir() else place
    if not place.exists():
        raise UserError(f"{place}: no such file or folder")
    if place.is_file() and place.suffix != ".safetensors":
        raise UserError(f"{place}: name a run's folder, or a model that ends in .safetensors")
    if not file.is_file():
        raise UserError(
            f"{place}: holds no model.safetensors; anchorfl fuse {place} --export {file} makes it"
            " of the run's uploads"
        )
    return FusedModel.load(file, [*code_in(code), *(trusted_code(place) if trust else [])])


def code_in(names: str | None) -> list[str]:
    """Names of encoders, with commas, that are code."""
    return [name.strip() for name in (names or "").split(",") if ":" in name]


def trusted_code(place: Path) -> list[str]:
    """What a run's folder names: its encoders; its fusions are imported."""
    from anchorfl.settings import import_named, read_preset

    config = place / "config.yaml"
    if not config.is_file():
        return []
    settings = read_preset(config)
    import_named(settings)
    return code_in(str(settings.get("model.name")))
