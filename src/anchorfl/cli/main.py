"""The command `anchorfl`. What is heavy is imported by the command that needs it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Annotated, Any

import typer

from anchorfl import __version__
from anchorfl.cli.data import data_app
from anchorfl.cli.explain import compare, diagnose, forecast, methods, report
from anchorfl.cli.federate import inspect, server_app, site_app, task_app
from anchorfl.cli.plain import Commands
from anchorfl.cli.predictor import distill, evaluate, export, fuse, predict
from anchorfl.cli.run import WithKeys, demo, run, sweep
from anchorfl.cli.start import start
from anchorfl.errors import UserError

app = Commands(
    "One-shot federated learning under extreme label skew.\n\n"
    "\b\nExamples:\n  anchorfl demo\n  anchorfl run v4 train.rounds=20\n"
    "  anchorfl data show digits partition.alpha=0.1",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
app.command(cls=WithKeys)(run)
COMMANDS: tuple[Callable[..., None], ...] = (
    *(demo, sweep, methods, forecast, diagnose, report, compare),
    *(start, fuse, predict, evaluate, export, distill, inspect),
)
for command in COMMANDS:
    app.command()(command)
app.add_typer(data_app, name="data")
app.add_typer(task_app, name="task")
app.add_typer(site_app, name="site")
app.add_typer(server_app, name="server")


def show_version(wanted: bool) -> None:
    if wanted:
        print(f"anchorfl {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=show_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """Options of the command itself."""


def main() -> None:
    """A user's mistake ends in one line and exit code 2, never in a traceback."""
    try:
        sys.exit(app(standalone_mode=False) or 0)
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
