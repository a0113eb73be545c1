"""The commands that train: run, sweep, demo."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from anchorfl.cli.plain import PlainCommand, Settings, Trust, stoppable
from anchorfl.errors import UserError
from anchorfl.methods import METHODS
from anchorfl.report.console import make_console, say
from anchorfl.runs import RunFolder, read_run
from anchorfl.settings import (
    all_keys,
    import_named,
    parse_words,
    read_preset,
    refuse_unused,
    resolve,
)


class WithKeys(PlainCommand):
    """A command whose help ends with every key, gathered when it is asked for."""

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        from anchorfl.report.keys import keys_help

        formatter.write(f"\n{keys_help()}")


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


def refuse_changed_code(file: Path) -> None:
    """A run's config.yaml names code by its hash: by other code it is another experiment."""
    from anchorfl.settings import changed_code, read_yaml

    content = read_yaml(file, "preset")
    changed = changed_code(content) if isinstance(content, dict) else []
    if changed:
        raise UserError(
            f"{file}: {changed[0]} is not what it was when this ran; put the old code back, or give"
            " the settings without this file to run the new"
        )


def begun_in(folder: Path, words: dict[str, object], trust: bool) -> tuple[str, dict[str, object]]:
    """The settings of an unfinished run, to resume it."""
    from anchorfl.simulate import read_begun

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

    A folder that holds the same experiment, unfinished, is resumed from its last checkpoint.

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
    given = dict(words)
    if what.lower().endswith((".yaml", ".yml")):
        refuse_changed_code(Path(what))
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
    refuse_unused(given, config.data.name)

    from anchorfl.report.diagnosis import show_diagnosis
    from anchorfl.report.figures import write_figures
    from anchorfl.report.progress import show_progress
    from anchorfl.report.tables import result_table
    from anchorfl.simulate import run_in_folder

    console = make_console()
    with stoppable():
        done = run_in_folder(config, (show_progress(console),), restart)
        console.print(result_table(done.summary))
        show_diagnosis(console, done, done.summary.warnings)
        for path in write_figures(done, done.files.figures):
            say(console, f"{'figure' if path.suffix == '.png' else 'table'}: {path}")
        say(console, f"report: {done.files.page}")
        say(console, f"run folder: {done.folder}")


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

    with stoppable():
        run_demo(make_console(), rounds)
