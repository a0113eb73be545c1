"""The commands that train: run, sweep, demo."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from anchorfl.cli.plain import PlainCommand
from anchorfl.cli.words import Settings, Trust
from anchorfl.errors import UserError
from anchorfl.registry import METHODS
from anchorfl.settings import all_keys, import_named, parse_words, read_preset, resolve


class WithKeys(PlainCommand):
    """A command whose help ends with every key, gathered when it is asked for."""

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        from anchorfl.report.keys import keys_help

        formatter.write(f"\n{keys_help()}")


@contextmanager
def stoppable() -> Iterator[None]:
    """Ctrl-C, a cluster's end of time, or a terminal that closes, ends in one line and `stopped`.

    The exit code is 128 and the signal's number. A second signal ends everything at once.
    """
    caught = signal.SIGINT
    known = [each for each in signal.Signals if each.name in ("SIGINT", "SIGTERM", "SIGHUP")]

    def stop(number: int, frame: object) -> NoReturn:
        nonlocal caught
        caught = signal.Signals(number)
        for each in known:
            signal.signal(each, signal.SIG_DFL)
        raise KeyboardInterrupt

    for each in known:
        signal.signal(each, stop)
    try:
        yield
    except KeyboardInterrupt as stopped:
        again = f"anchorfl run {stopped.args[0]}" if stopped.args else "the same command"
        with suppress(OSError):
            print(f"stopped: {again} goes on where this ended", file=sys.stderr)
        raise typer.Exit(128 + caught) from None


def preset_with(preset: dict[str, object], words: dict[str, object]) -> tuple[str, dict[str, object]]:
    """A preset under the command line's words; with `method=` its other settings serve that one.

    Of the preset's align keys those that the other method lacks, or that set it apart from its
    relatives (the schedule, its own defaults), are left out, and named.
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


def begun_in(folder: Path, words: dict[str, object], trust: bool) -> tuple[str, dict[str, object]]:
    """The settings of an unfinished run, to go on with it."""
    from anchorfl.engine import read_begun
    from anchorfl.runs import RunFolder, read_run

    begun = read_begun(RunFolder(folder)) or read_run(folder)
    if not begun.unfinished and not begun.changed_code:
        raise UserError(f"{folder}: holds a run that ended; to repeat it, run {folder}/config.yaml")
    code = ":" in str(begun.settings.get("model.name"))
    if code and not trust and "model.name" not in words:
        raise UserError(
            f"{folder}: its encoder is code ({begun.settings['model.name']}), which is imported only"
            " if you trust it: add --trust"
        )
    if trust:
        import_named(begun.settings)
    settings = {**begun.settings, **words, "out": str(folder)}
    return str(settings.pop("method")), settings


def run(
    what: Annotated[str, typer.Argument(metavar="METHOD|PRESET.yaml|FOLDER", show_default=False)],
    settings: Settings = None,
    restart: Annotated[
        bool, typer.Option("--restart", help="Begin an unfinished run anew; the old one is put aside.")
    ] = False,
    trust: Trust = False,
) -> None:
    """Train all clients, fuse what they upload, and keep everything in a folder.

    A folder that holds the same experiment, unfinished, is gone on with from its last checkpoint.

    \b
    Examples:
      anchorfl run v4
      anchorfl run v4 data.name=cifar10 data.root=DIR partition.alpha=0.1 seed=1
      anchorfl run v4 fusion=sketch-guided,class-mean,iffi,parameter-mean
      anchorfl run v12-gamma align.gamma=0.1 align.start=entropy train.clip=group
      anchorfl run presets/v4-digits.yaml train.rounds=5
      anchorfl run presets/v12-gamma-digits.yaml method=v12 seed=1
      anchorfl run runs/EARLIER/config.yaml out=runs/again
      anchorfl run runs/STOPPED
    """
    words = parse_words(settings or [])
    import_named({"method": what, **words})
    if what.lower().endswith((".yaml", ".yml")):
        preset = read_preset(Path(what))
        import_named(preset)
        method, words = preset_with(preset, words)
    elif (Path(what) / "config.yaml").is_file():
        method, words = begun_in(Path(what), words, trust)
    else:
        method = what
        if "method" in words:
            raise UserError(f"method={words['method']}: goes with a preset; write anchorfl run METHOD")
    config = resolve(method, words)

    from anchorfl.report.console import make_console
    from anchorfl.report.finish import run_and_report

    with stoppable():
        run_and_report(config, make_console(), restart)


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


def demo(
    rounds: Annotated[int, typer.Option(help="Rounds of one local epoch each.", min=1)] = 25,
) -> None:
    """Seven methods on scikit-learn's digits: 5 clients, alpha 0.05, three seeds; a table and figures.

    \b
    Example:
      anchorfl demo --rounds 5
    """
    from anchorfl.cli.demo import run_demo
    from anchorfl.report.console import make_console

    with stoppable():
        run_demo(make_console(), rounds)
