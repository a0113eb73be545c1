"""The console that everything is printed on."""

from __future__ import annotations

from rich.console import Console

LOG_WIDTH = 120


REPLACED = "\N{REPLACEMENT CHARACTER}"


def make_console() -> Console:
    """A terminal as wide as it is; a log wide enough for the tables."""
    console = Console(highlight=False, soft_wrap=False)
    return console if console.is_terminal else Console(width=LOG_WIDTH, highlight=False)


def printable(text: str) -> str:
    """Without what would command a terminal: names may come from somebody else's files."""
    return "".join(each if each.isprintable() or each == "\n" else REPLACED for each in text)


def say(console: Console, line: str, style: str | None = None) -> None:
    """One line, as it is: not wrapped, not coloured by guesswork."""
    console.print(printable(line), style=style, soft_wrap=True, highlight=False, markup=False)
