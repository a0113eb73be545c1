"""The commands that explain: methods, forecast, diagnose, report, compare."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from anchorfl.cli.plain import Trust
from anchorfl.errors import UserError
from anchorfl.report.console import make_console, say
from anchorfl.runs import read_run
from anchorfl.settings import import_named, parse_words

Runs = Annotated[list[Path], typer.Argument(metavar="RUN...", show_default=False)]


def methods(
    name: Annotated[str | None, typer.Argument(show_default=False)] = None,
    fusions: Annotated[bool, typer.Option("--fusions", help="List fusions instead.")] = False,
) -> None:
    """List the methods, or show one: its formula, its defaults and where it comes from.

    \b
    Examples:
      anchorfl methods
      anchorfl methods v4
      anchorfl methods --fusions
    """
    from anchorfl.report.methods import show_methods

    import_named({"method": name})
    show_methods(make_console(), name, fusions)


def forecast(
    words: Annotated[
        list[str] | None, typer.Argument(metavar="[RUN] [align.KEY=VALUE ...]", show_default=False)
    ] = None,
    method: Annotated[str, typer.Option(help="Method, where no RUN is given.")] = "v12",
    rounds: Annotated[int, typer.Option(help="Rounds of one epoch.", min=1)] = 50,
    steps: Annotated[int, typer.Option(help="Steps per round.", min=1)] = 40,
    base: Annotated[float, typer.Option(help="Base loss B, constant.", min=1e-9)] = 8.0,
    align: Annotated[float | None, typer.Option(help="Align loss A, constant.", min=1e-30)] = None,
    align_from: Annotated[float, typer.Option(help="A in the first round.", min=1e-30)] = 1.0,
    align_to: Annotated[float, typer.Option(help="A in the last round.", min=1e-30)] = 0.001,
    clip: Annotated[float, typer.Option(help="Clip factor on the sigmas.", min=0, max=1)] = 1.0,
    bound: Annotated[
        float, typer.Option(help="Report when raw lambda exceeds this.", min=1e-9)
    ] = 100.0,
    figure: Annotated[Path, typer.Option(help="Figure to write.")] = Path("forecast.png"),
    trust: Trust = False,
) -> None:
    """Forecast where lambda will go, without training: from assumed losses, or from a run's own.

    \b
    Examples:
      anchorfl forecast --method v12 --rounds 50 --base 8 --align-from 1 --align-to 0.001
      anchorfl forecast --method v12-gamma --base 9 --align 1 align.gamma=0.1 align.sigma_lr=0.005
      anchorfl forecast runs/v12-svhn-dirichlet-0.05-seed1 --bound 1000
    """
    from anchorfl.diagnose import geometric
    from anchorfl.objective import RoundMeans
    from anchorfl.report import forecasts

    folders = [word for word in words or [] if "=" not in word]
    settings = parse_words([word for word in words or [] if "=" in word])
    if folders:
        if len(folders) > 1 or settings:
            raise UserError("forecast: name one run alone, or none and align.KEY=VALUE words")
        forecasts.show_run(make_console(), read_run(folders[0], trust), bound, figure)
        return
    for key, value in settings.items():
        if not key.startswith("align."):
            raise UserError(f"{key}={value}: a forecast takes align.KEY=VALUE and its own options")
    import_named({"method": method})
    course = (align, align) if align is not None else (align_from, align_to)
    assumed = [RoundMeans(base, each, clip, steps) for each in geometric(*course, rounds)]
    forecasts.show_assumed(make_console(), method, settings, assumed, bound, figure)


def diagnose(
    runs: Runs,
    trust: Trust = False,
) -> None:
    """State in plain sentences what happened in a run and what to do about it.

    \b
    Example:
      anchorfl diagnose runs/v12-digits-dirichlet-0.05-seed1
    """
    from anchorfl.report.diagnosis import show_diagnosis

    console = make_console()
    for folder in runs:
        if len(runs) > 1:
            say(console, f"{folder}:")
        show_diagnosis(console, read_run(folder, trust))


def report(
    runs: Runs,
    figures: Annotated[
        Path | None, typer.Option(help="Folder for figures and the lambda tables.")
    ] = None,
    formats: Annotated[
        str, typer.Option("--format", help="Of the figures: png, svg, pdf, or several.")
    ] = "png",
    trust: Trust = False,
) -> None:
    """Write a run's page anew (report.html in its folder), and figures for a paper.

    \b
    Examples:
      anchorfl report runs/v12-digits-dirichlet-0.05-seed1
      anchorfl report runs/v12-digits-dirichlet-0.05-seed1 --figures figures --format pdf,svg
    """
    from anchorfl.report.figures import figure_formats, write_figures
    from anchorfl.report.page import write_page

    console, kinds = make_console(), figure_formats(formats)
    for folder in runs:
        run = read_run(folder, trust)
        say(console, f"report: {write_page(run)}")
        if figures is not None:
            place = figures / folder.name if len(runs) > 1 else figures
            for path in write_figures(run, place, kinds):
                say(console, f"{'table' if path.suffix == '.md' else 'figure'}: {path}")


def compare(
    runs: Runs,
    baseline: Annotated[
        str | None,
        typer.Option(help="Method to subtract, paired by seed and tested.", show_default=False),
    ] = None,
    page: Annotated[Path | None, typer.Option(help="Page to write: tables and curves.")] = None,
    table: Annotated[
        Path | None, typer.Option(help="Table to write: .md, .tex, or .csv of every run.")
    ] = None,
    figures: Annotated[
        Path | None, typer.Option(help="Folder for the curves as PNG, PDF and SVG.")
    ] = None,
) -> None:
    """Put runs beside each other: grouped by what differs, mean ± deviation over seeds.

    \b
    Examples:
      anchorfl compare runs/demo/* --baseline v4
      anchorfl compare runs/* --page compare.html --table compare.tex --figures figures
    """
    from anchorfl.report.compare import finished_runs, show_comparison

    console = make_console()
    show_comparison(console, finished_runs(console, runs), baseline, page, table, figures)
