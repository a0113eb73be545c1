"""The console that everything is printed on."""

from __future__ import annotations

from rich.console import Console

LOG_WIDTH = 120


def make_console() -> Console:
    """A terminal as wide as it is; a log wide enough for the tables."""
    console = Console(highlight=False, soft_wrap=False)
    return console if console.is_terminal else Console(width=LOG_WIDTH, highlight=False)


def say(console: Console, line: str, style: str | None = None) -> None:
    """One line, as it is: not wrapped, not coloured by guesswork."""
    console.print(line, style=style, soft_wrap=True, highlight=False, markup=False)
