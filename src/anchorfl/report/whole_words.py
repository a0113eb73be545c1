"""Tables of a terminal that fold at spaces alone, as long as their longest words fit."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.table import Column, Table
from rich.text import Text

UNLIMITED = 10_000


class WholeWords(Table):
    """Columns give way to each other down to their longest word; only then are words broken.

    The title may be wider than the table.
    """

    def __init__(self, heading: str) -> None:
        super().__init__(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
        self.heading = heading

    def fits(self, console: Console) -> bool:
        """Whether every word is whole on this console."""
        return self.frame() + sum(least for least, _ in self.widths(console)) <= console.width

    def fits_unfolded(self, console: Console) -> bool:
        """Whether every cell is one line on this console."""
        return self.frame() + sum(most for _, most in self.widths(console)) <= console.width

    def frame(self) -> int:
        """What stands between the columns and around them: a blank each, and one after a cell."""
        return 1 + 2 * len(self.columns)

    def widths(self, console: Console) -> list[tuple[int, int]]:
        """Of every column the least and the most that it needs."""
        return [width_of(column, console) for column in self.columns]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Text(self.heading, style="table.title")
        room = options.max_width - self.frame()
        for column, width in zip(self.columns, shared(room, self.widths(console)), strict=True):
            column.width = width
        yield from super().__rich_console__(console, options)


def width_of(column: Column, console: Console) -> tuple[int, int]:
    unlimited = console.options.update(width=UNLIMITED)
    found = [Measurement.get(console, unlimited, each) for each in (column.header, *column.cells)]
    least = max(column.min_width or 0, *(each.minimum for each in found))
    return least, max(least, *(each.maximum for each in found))


def shared(room: int, widths: Sequence[tuple[int, int]]) -> list[int]:
    """The widest column that can spare a place gives it, until all fit; then the widest anyway."""
    given = [most for _, most in widths]
    spare = [most - least for least, most in widths]
    for _ in range(sum(given) - max(room, len(given))):
        able = [number for number, each in enumerate(spare) if each > 0] or range(len(given))
        widest = max(able, key=given.__getitem__)
        given[widest] -= 1
        spare[widest] -= 1
    return given
