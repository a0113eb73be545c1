"""What commands share: plain help, the words of an experiment, an end in one line when stopped."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Annotated, Any, NoReturn, TypeVar

import typer
from typer.core import TyperCommand

F = TypeVar("F", bound=Callable[..., Any])
Settings = Annotated[list[str] | None, typer.Argument(metavar="key=value ...", show_default=False)]
Trust = Annotated[
    bool, typer.Option("--trust", help="Import code that the run's folder names (FILE.py:NAME).")
]
ModelCode = Annotated[
    str | None,
    typer.Option(
        "--model", help="Your own code for the model's encoder, FILE.py:NAME.", show_default=False
    ),
]


class PlainCommand(TyperCommand):
    """Typer escapes brackets, as in `[required]`, even where no markup is read."""

    def get_help(self, ctx: Any) -> str:
        return super().get_help(ctx).replace("\\[", "[")


class Commands(typer.Typer):
    """A group of plain commands; without a command it shows its help."""

    def __init__(self, help: str, **options: Any) -> None:
        super().__init__(help=help, no_args_is_help=True, rich_markup_mode=None, **options)

    def command(self, name: str | None = None, **options: Any) -> Callable[[F], F]:
        return super().command(name, **{"cls": PlainCommand, **options})


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
            print(f"stopped: {again} resumes where this ended", file=sys.stderr)
        raise typer.Exit(128 + caught) from None
