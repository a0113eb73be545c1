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
from anchorfl.options import describe

WORDS = "key=value ..."


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
data_app = typer.Typer(
    help="Data sets and how they are shared over clients.\n\n"
    "\b\nExamples:\n  anchorfl data list\n  anchorfl data show digits partition.alpha=0.1",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.add_typer(data_app, name="data")
Settings = Annotated[list[str] | None, typer.Argument(metavar=WORDS, show_default=False)]


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

    The preset's align keys that the other method does not have are left out, and named.
    """
    preset.pop("out", None)
    named = str(preset.pop("method"))
    method = str(words.pop("method", named))
    known = all_keys(method)
    unfitting = [key for key in preset if key.startswith("align.") and key not in known]
    if method != named and unfitting:
        print(f"{method} has no {', '.join(unfitting)}: left out", file=sys.stderr)
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
      anchorfl run presets/explosion-digits.yaml method=v12-gamma seed=1
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


@data_app.command("list")
def data_list() -> None:
    """List the data sets.

    \b
    Example:
      anchorfl data list
    """
    from anchorfl.report import catalogue
    from anchorfl.report.console import make_console

    catalogue.show_datasets(make_console())


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
    from anchorfl.report import catalogue
    from anchorfl.report.console import make_console

    catalogue.fetch_with_progress(make_console(), name, root)


@data_app.command("show")
def data_show(
    name: Annotated[str, typer.Argument(show_default=False)] = "digits",
    settings: Settings = None,
    figure: Annotated[Path | None, typer.Option(help="Picture to write.")] = None,
    save: Annotated[Path | None, typer.Option(help="Also save the partition as JSON.")] = None,
) -> None:
    """Print and draw who holds how many samples of which label.

    \b
    Examples:
      anchorfl data show digits
      anchorfl data show cifar10 data.root=DIR partition.alpha=0.1 partition.seed=3
      anchorfl data show digits partition.kind=shards partition.labels=2 --save partition.json
    """
    from anchorfl.report import catalogue
    from anchorfl.report.console import make_console

    if "=" in name:
        settings, name = [name, *(settings or [])], "digits"
    words = {"data.name": name, **parse_words(settings or [])}
    catalogue.show_partition(make_console(), words, figure or Path(f"partition-{name}.png"), save)


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
