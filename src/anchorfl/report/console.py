"""The console that everything is printed on."""

from __future__ import annotations

import os
import sys

from rich.console import Console

LOG_WIDTH = 120
REPLACED = "\N{REPLACEMENT CHARACTER}"


def make_console() -> Console:
    """A terminal as wide as it is; a log wide enough for the tables."""
    console = Console(highlight=False)
    return console if console.is_terminal else Log(width=LOG_WIDTH, highlight=False)


class Log(Console):
    """Nobody may read it to its end (`| head -1`): what goes on goes on, unprinted."""

    def on_broken_pipe(self) -> None:
        self.quiet = True
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def printable(text: str) -> str:
    """Without what would command a terminal: names may come from somebody else's files."""
    return "".join(each if each.isprintable() or each == "\n" else REPLACED for each in text)


def file_word(name: str) -> str:
    """Letters, digits, dots and dashes: a name from somebody else's file leads nowhere else."""
    return "".join(each if each.isalnum() or each in "-." else "-" for each in name)


def say(console: Console, line: str, style: str | None = None) -> None:
    """One line, as it is: not wrapped, not coloured by guesswork."""
    console.print(printable(line), style=style, soft_wrap=True, highlight=False, markup=False)


def spreadsheet_cell(value: object) -> str:
    """Text that a spreadsheet would take for a formula gets an apostrophe before it."""
    text = str(value)
    number = text.replace(".", "", 1).lstrip("+-").isdigit()
    return f"'{text}" if text[:1] in ("=", "+", "-", "@", "\t", "\r") and not number else text
