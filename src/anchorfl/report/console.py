"""The console that everything is printed on."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable
from typing import TextIO, cast

from rich.console import Console

LOG_WIDTH = 120


REPLACED = "\N{REPLACEMENT CHARACTER}"


def make_console() -> Console:
    """A terminal as wide as it is; a log wide enough for the tables."""
    console = Console(highlight=False, soft_wrap=False)
    if console.is_terminal:
        return console
    return Console(file=cast(TextIO, Patient(sys.stdout)), width=LOG_WIDTH, highlight=False)


class Patient(io.TextIOBase):
    """A log that nobody may read to its end (`| head -1`): what goes on goes on, unprinted."""

    def __init__(self, file: TextIO) -> None:
        self.file: TextIO | None = file

    def write(self, text: str) -> int:
        self._attempt(lambda file: file.write(text))
        return len(text)

    def flush(self) -> None:
        self._attempt(lambda file: file.flush())

    def _attempt(self, act: Callable[[TextIO], object]) -> None:
        if self.file is None:
            return
        try:
            act(self.file)
        except BrokenPipeError:
            self.file = None
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
