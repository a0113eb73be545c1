"""Tables for the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean

import numpy as np
from numpy.typing import NDArray
from rich import box
from rich.console import Console, ConsoleOptions, RenderResult
from rich.markup import escape
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from anchorfl.objective import label_entropy
from anchorfl.report.console import printable
from anchorfl.report.numbers import megabytes, percent, quantity
from anchorfl.runs import Summary

STATISTICS_WIDTH, LABEL_WIDTH = 40, 6
NAMED = 3
UNLIMITED = 10_000


class TitledTable(Table):
    """A table under a title of any width.

    Where it is too wide, the headings of numbers fold; where even that is too wide, everything does.
    """

    def __init__(self, heading: str) -> None:
        super().__init__(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
        self.heading = heading

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Text(self.heading, style="table.title")
        needed = widths(self, console)
        for column in self.columns if needed.maximum > options.max_width else ():
            if column.no_wrap:
                column.header = str(column.header).replace(" ", "\n")
            if needed.minimum > options.max_width:
                column.no_wrap, column.min_width = False, None
        yield from super().__rich_console__(console, options)


def plain_table(headings: Sequence[str], rows: Sequence[Sequence[str]], title: str) -> TitledTable:
    """Columns of words fold where they must; numbers never do."""
    table = TitledTable(printable(title))
    for number, heading in enumerate(headings):
        cells = [row[number] for row in rows]
        names = number == 0 and any(each[:1].isalpha() for each in cells)
        if names or any(" " in each and "±" not in each for each in cells):
            table.add_column(cell(heading), overflow="fold")
        else:
            widest = max(map(len, cells), default=0)
            table.add_column(
                cell(heading), justify="right", min_width=widest, no_wrap=True, overflow="fold"
            )
    for row in rows:
        table.add_row(*map(cell, row))
    return table


def cell(text: str) -> str:
    """As it is: no markup, nothing that commands a terminal."""
    return escape(printable(text))


def widths(table: Table, console: Console) -> Measurement:
    """The least width at which every word is whole, and the one at which no cell folds."""
    return console.measure(table, options=console.options.update(width=UNLIMITED))


def partition_table(
    counts: NDArray[np.int64], class_names: Sequence[str], title: str, width: int
) -> Table:
    """Samples by client and label, with what the skew amounts to, for a console of a width.

    Entropy H in bits, normalised H / log2 C, effective classes 2^H. Where a column for each label
    does not fit, the largest labels are named instead.
    """
    fits = STATISTICS_WIDTH + LABEL_WIDTH * len(class_names) <= width
    rows = []
    for client, row in enumerate(counts):
        entropy = label_entropy(row.tolist())
        labels = [str(count or ".") for count in row] if fits else [largest(row, class_names)]
        rows.append(
            [
                str(client),
                f"{row.sum():,}",
                f"{entropy:.3f}",
                f"{entropy / np.log2(len(row)):.3f}",
                f"{2**entropy if row.sum() else 0:.2f}",
                *labels,
            ]
        )
    headings = ["client", "samples", "entropy", "of log2 C", "effective classes"]
    return plain_table([*headings, *(class_names if fits else ["largest labels"])], rows, title)


def largest(row: NDArray[np.int64], class_names: Sequence[str]) -> str:
    order = [label for label in np.argsort(-row, kind="stable") if row[label]]
    named = ", ".join(f"{class_names[label]}: {row[label]}" for label in order[:NAMED])
    return named + (f", +{len(order) - NAMED} more" if len(order) > NAMED else "")


def result_table(summary: Summary) -> Table:
    """Final figures of a run, fusion by fusion, beside the best a single client does."""
    measures = {
        "accuracy, %": (summary.final_accuracy, percent),
        "balanced, %": (summary.balanced_accuracy, percent),
        "macro F1, %": (summary.macro_f1, percent),
        "calibration error, %": (summary.calibration_error, percent),
        "ms per image": (summary.prediction_ms, quantity),
    }
    rows = []
    for number, name in enumerate(summary.final_accuracy or {}):
        cells = [written((values or {})[name]) for values, written in measures.values()]
        rows.append([name + (" (primary)" if number == 0 else ""), *cells])
    table = plain_table(["fusion", *measures], rows, f"{summary.method} on {summary.dataset}")
    alone = summary.best_client()
    if alone is not None:
        table.add_section()
        table.add_row("best single client", percent(alone))
    sent = [size for size in summary.upload_bytes if size is not None]
    table.caption = f"{megabytes(mean(sent))} up per client"
    if summary.exchange_bytes:
        down = megabytes(mean(summary.exchange_bytes))
        table.caption += f", {down} down for a second exchange"
    table.caption_justify = "left"
    return table


def listing(rows: Sequence[tuple[str, str]]) -> Table:
    """Names and what they are, without lines."""
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(no_wrap=True)
    table.add_column()
    for row in rows:
        table.add_row(*row)
    return table
