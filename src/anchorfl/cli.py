"""The command `anchorfl`. What is heavy is imported by the command that needs it."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from anchorfl import __version__
from anchorfl.cli_data import Settings, data_app
from anchorfl.cli_predictor import distill, evaluate, export, fuse, predict
from anchorfl.config import (
    DEFAULT_FUSION,
    SECTIONS,
    GeneralOptions,
    all_keys,
    parse_words,
    read_preset,
    resolve,
)
from anchorfl.errors import UserError
from anchorfl.methods import METHODS
from anchorfl.options import describe


def keys_help() -> str:
    """Every key with its default, for the end of a help page."""
    rows = [
        (f"{section}.{key}", default, text)
        for section, owner in SECTIONS.items()
        for key, default, text in describe(owner)
    ]
    rows.append(("fusion", DEFAULT_FUSION, "one or more, the first makes the predictor"))
    rows.append(("fusion.NAME.OPTION", "", "an option of a fusion: anchorfl methods --fusions"))
    rows.append(("align.OPTION", "", "an option of the method's lambda: anchorfl methods NAME"))
    rows += describe(GeneralOptions)
    lines = [f"  {key:<24} {default:<12} {text}" for key, default, text in rows]
    return "\b\nKeys (default):\n" + "\n".join(lines)


app = typer.Typer(
    help="One-shot federated learning under extreme label skew.\n\n"
    "\b\nExamples:\n  anchorfl demo\n  anchorfl run v4 train.rounds=20\n"
    "  anchorfl data show digits partition.alpha=0.1",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
app.add_typer(data_app, name="data")
for command in (fuse, predict, evaluate, export, distill):
    app.command()(command)


@contextmanager
def stoppable() -> Iterator[None]:
    """Ctrl-C, or a cluster's end of time, ends in one line; the run's summary says `stopped`."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    except KeyboardInterrupt:
        print("stopped: the run's folder holds the rounds that were finished", file=sys.stderr)
        raise typer.Exit(130) from None


def show_version(wanted: bool) -> None:
    if wanted:
        print(f"anchorfl {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=show_version, is_eager=True, help="Show it.")
    ] = False,
) -> None:
    """Options of the command itself."""


def preset_with(preset: dict[str, object], words: dict[str, object]) -> tuple[str, dict[str, object]]:
    """A preset under the command line's words; with `method=` its other settings serve that one.

    Of the preset's align keys those that the other method lacks, or that tell it from its relatives
    (the schedule, its own defaults), are left out, and named.
    """
    preset.pop("out", None)
    named = str(preset.pop("method"))
    method = str(words.pop("method", named))
    own = {"align.schedule", *METHODS.get(method).defaults}
    known = set(all_keys(method)) - own
    unfitting = [key for key in preset if key.startswith("align.") and key not in known]
    if method != named and unfitting:
        print(f"{method} does not take the preset's {', '.join(unfitting)}", file=sys.stderr)
        preset = {key: value for key, value in preset.items() if key not in unfitting}
    return method, {**preset, **words}


@app.command(epilog=keys_help())
def run(
    what: Annotated[str, typer.Argument(metavar="METHOD|PRESET.yaml", show_default=False)],
    settings: Settings = None,
) -> None:
    """Train all clients, fuse what they upload, and keep everything in a new folder.

    \b
    Examples:
      anchorfl run v4
      anchorfl run v4 data.name=cifar10 data.root=DIR partition.alpha=0.1 seed=1
      anchorfl run v4 fusion=feature-mean,softmax-mean,iffi,parameter-mean
      anchorfl run v12-gamma align.gamma=0.1 align.start=entropy train.clip=group
      anchorfl run presets/v4-digits.yaml train.rounds=5
      anchorfl run presets/v12-gamma-digits.yaml method=v12 seed=1
      anchorfl run runs/EARLIER/config.yaml out=runs/again
    """
    words = parse_words(settings or [])
    if what.lower().endswith((".yaml", ".yml")):
        method, words = preset_with(read_preset(Path(what)), words)
    elif (Path(what) / "config.yaml").is_file():
        raise UserError(f"{what}: is a run's folder; to repeat it, run {what}/config.yaml")
    else:
        method = what
    config = resolve(method, words)

    from anchorfl.report.console import make_console
    from anchorfl.report.finish import run_and_report

    with stoppable():
        run_and_report(config, make_console())


@app.command()
def demo(
    rounds: Annotated[int, typer.Option(help="Rounds of one local epoch each.", min=1)] = 25,
) -> None:
    """Six methods on scikit-learn's digits: 5 clients, alpha 0.05, three seeds; a table and pictures.

    \b
    Example:
      anchorfl demo --rounds 5
    """
    from anchorfl.demo import run_demo
    from anchorfl.report.console import make_console

    with stoppable():
        run_demo(make_console(), rounds)


@app.command()
def forecast(
    words: Annotated[
        list[str] | None, typer.Argument(metavar="[RUN] [align.KEY=VALUE ...]", show_default=False)
    ] = None,
    method: Annotated[str, typer.Option(help="Whose lambda, where no RUN is given.")] = "v12",
    rounds: Annotated[int, typer.Option(help="Rounds of one epoch.", min=1)] = 50,
    steps: Annotated[int, typer.Option(help="Steps a round.", min=1)] = 40,
    base: Annotated[float, typer.Option(help="B, constant.", min=1e-9)] = 8.0,
    align: Annotated[float | None, typer.Option(help="A, constant.", min=1e-30)] = None,
    align_from: Annotated[float, typer.Option(help="A in the first round.", min=1e-30)] = 1.0,
    align_to: Annotated[float, typer.Option(help="A in the last round.", min=1e-30)] = 0.001,
    clip: Annotated[float, typer.Option(help="Clip factor on the sigmas.", min=0, max=1)] = 1.0,
    bound: Annotated[float, typer.Option(help="A lambda that is too large.", min=1e-9)] = 100.0,
    figure: Annotated[Path, typer.Option(help="Picture to write.")] = Path("forecast.png"),
) -> None:
    """Say where lambda will go, without training: from assumed losses, or from a run's own.

    \b
    Examples:
      anchorfl forecast --method v12 --rounds 50 --base 8 --align-from 1 --align-to 0.001
      anchorfl forecast --method v12-gamma --base 9 --align 1 align.gamma=0.1 align.sigma_lr=0.005
      anchorfl forecast runs/v12-svhn-dirichlet-0.05-seed1 --bound 1000
    """
    from anchorfl.report import forecasts
    from anchorfl.report.console import make_console

    folders = [word for word in words or [] if "=" not in word]
    settings = parse_words([word for word in words or [] if "=" in word])
    if folders:
        from anchorfl.records import read_run

        if len(folders) > 1 or settings:
            raise UserError("forecast: name one run alone, or none and align.KEY=VALUE words")
        forecasts.show_run(make_console(), read_run(folders[0]), bound, figure)
        return
    for key, value in settings.items():
        if not key.startswith("align."):
            raise UserError(f"{key}={value}: a forecast takes align.KEY=VALUE and its own options")
    course = (align, align) if align is not None else (align_from, align_to)
    assumed = forecasts.assumed_rounds(rounds, base, course, clip, steps)
    forecasts.show_assumed(make_console(), method, settings, assumed, bound, figure)


@app.command()
def diagnose(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", show_default=False)],
) -> None:
    """Say in plain sentences what happened in a run and what to do about it.

    \b
    Example:
      anchorfl diagnose runs/v12-digits-dirichlet-0.05-seed1
    """
    from anchorfl.records import read_run
    from anchorfl.report.console import make_console, say
    from anchorfl.report.diagnosis import show_diagnosis

    console = make_console()
    for folder in runs:
        if len(runs) > 1:
            say(console, f"{folder}:")
        show_diagnosis(console, read_run(folder))


@app.command()
def report(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", show_default=False)],
    figures: Annotated[
        Path | None, typer.Option(help="Folder for PNG pictures and the lambda tables.")
    ] = None,
) -> None:
    """Write a run's page anew (report.html in its folder), and pictures for a paper.

    \b
    Examples:
      anchorfl report runs/v12-digits-dirichlet-0.05-seed1
      anchorfl report runs/v12-digits-dirichlet-0.05-seed1 --figures figures
    """
    from anchorfl.records import read_run
    from anchorfl.report.console import make_console, say
    from anchorfl.report.figures import write_figures
    from anchorfl.report.page import write_page

    console = make_console()
    for folder in runs:
        run = read_run(folder)
        say(console, f"report: {write_page(run)}")
        if figures is not None:
            place = figures / folder.name if len(runs) > 1 else figures
            for path in write_figures(run, place):
                say(console, f"figure: {path}")


@app.command()
def compare(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", show_default=False)],
    baseline: Annotated[
        str | None, typer.Option(help="Method to subtract, paired by seed.", show_default=False)
    ] = None,
    page: Annotated[Path | None, typer.Option(help="Page with overlaid curves to write.")] = None,
    table: Annotated[Path | None, typer.Option(help="Table to write: .md or .csv.")] = None,
) -> None:
    """Put runs beside each other: grouped by what differs, mean +- deviation over seeds.

    \b
    Examples:
      anchorfl compare runs/demo/* --baseline v4
      anchorfl compare runs/* --page compare.html --table compare.md
    """
    from anchorfl.records import read_run
    from anchorfl.report.compare import show_comparison
    from anchorfl.report.console import make_console

    found = [read_run(folder) for folder in runs if not folder.is_file()]
    if not found:
        raise UserError("compare: name at least one run's folder")
    show_comparison(make_console(), found, baseline, page, table)


@app.command()
def sweep(
    file: Annotated[Path, typer.Argument(metavar="SWEEP.yaml", show_default=False)],
    at_once: Annotated[
        int | None, typer.Option(help="Runs at the same time.", min=1, show_default=False)
    ] = None,
) -> None:
    """Run a grid, a list or a search; what finished earlier is not run again; ends in a comparison.

    \b
    Examples:
      anchorfl sweep presets/sweep-digits.yaml
      anchorfl sweep my-sweep.yaml --at-once 4
    """
    from anchorfl.report.console import make_console
    from anchorfl.report.sweeps import sweep_and_report
    from anchorfl.sweep import read_plan

    with stoppable():
        sweep_and_report(make_console(), read_plan(file, at_once))


@app.command()
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
    from anchorfl.report import catalogue
    from anchorfl.report.console import make_console

    catalogue.show_methods(make_console(), name, fusions)


def main() -> None:
    """A user's mistake ends in one line and exit code 2, never in a traceback."""
    try:
        app()
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    except OSError as error:
        if error.filename is None:
            raise
        print(f"error: {error.filename}: {error.strerror}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
