"""The command `anchorfl`. What is heavy is imported by the command that needs it."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from importlib import import_module
from typing import Annotated, Any

import typer

from anchorfl.cli.plain import Commands
from anchorfl.errors import UserError
from anchorfl.version import __version__

HOMES = {
    "run": ("run", "demo", "sweep"),
    "explain": ("methods", "forecast", "diagnose", "report", "compare"),
    "start": ("start",),
    "model": ("fuse", "predict", "evaluate", "export", "distill"),
    "data": ("data",),
    "federate": ("inspect", "task", "site", "server"),
}
"""By file of this package, the commands and groups of commands in it."""


def show_version(wanted: bool) -> None:
    if wanted:
        print(f"anchorfl {__version__}")
        raise typer.Exit


def options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=show_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """Options of the command itself."""


def app_of(files: Iterable[str] = HOMES) -> Commands:
    """The commands in some files: a single one need not import the others'."""
    app = Commands(
        "One-shot federated learning under extreme label skew.\n\n"
        "\b\nExamples:\n  anchorfl demo\n  anchorfl run v4 train.rounds=20\n"
        "  anchorfl data show digits partition.alpha=0.1",
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    )
    app.callback()(options)
    for file in files:
        module = import_module(f"anchorfl.cli.{file}")
        for name in HOMES[file]:
            group = getattr(module, f"{name}_app", None)
            if group is not None:
                app.add_typer(group, name=name)
            else:
                app.command(**({"cls": module.WithKeys} if name == "run" else {}))(
                    getattr(module, name)
                )
    return app


def called(words: list[str]) -> Iterable[str]:
    """The file of the command that is called; all of them where none is named."""
    named = [file for file, names in HOMES.items() if words and words[0] in names]
    return named or HOMES


def main() -> None:
    """A user's mistake ends in one line and exit code 2, never in a traceback."""
    try:
        sys.exit(app_of(called(sys.argv[1:]))(standalone_mode=False) or 0)
    except UserError as error:
        from anchorfl.report.console import printable

        print(f"error: {printable(str(error))}", file=sys.stderr)
        sys.exit(2)
    except OSError as error:
        if error.filename is None:
            raise
        print(f"error: {error.filename}: {error.strerror}", file=sys.stderr)
        sys.exit(2)
    except Exception as error:
        if not hasattr(error, "format_message"):
            raise
        print(f"error: {usage_mistake(error)}", file=sys.stderr)
        sys.exit(2)


def usage_mistake(error: Any) -> str:
    """What is wrong with the command line, as typer puts it, in one line, and where to look."""
    context = getattr(error, "ctx", None)
    path = context.command_path if context else "anchorfl"
    said = " ".join(error.format_message().split()).rstrip(".")
    words = " (settings are words, such as train.rounds=3)" if path.endswith(" run") else ""
    return f"{said}{words}; see {path} --help"
