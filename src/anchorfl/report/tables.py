"""Tables for the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean

import numpy as np
from numpy.typing import NDArray
from rich.console import JustifyMethod
from rich.markup import escape
from rich.table import Table

from anchorfl.objective import label_entropy
from anchorfl.report.console import printable
from anchorfl.report.numbers import megabytes, percent, quantity
from anchorfl.report.whole_words import WholeWords
from anchorfl.runs import Summary

STATISTICS_WIDTH, LABEL_WIDTH = 40, 6
NAMED = 3


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


def best_client(local_accuracy: Sequence[float | None]) -> float | None:
    """None where no client has a model of its own."""
    return max((value for value in local_accuracy if value is not None), default=None)


def result_table(summary: Summary) -> Table:
    """Final figures of a run, fusion by fusion, beside the best a single client does."""
    table = new_table(f"{summary.method} on {summary.dataset}")
    table.add_column("fusion")
    measures = {
        "accuracy, %": (summary.final_accuracy, percent),
        "balanced, %": (summary.balanced_accuracy, percent),
        "macro F1, %": (summary.macro_f1, percent),
        "calibration error, %": (summary.calibration_error, percent),
        "ms per image": (summary.prediction_ms, quantity),
    }
    for heading in measures:
        table.add_column(heading, justify="right")
    for number, name in enumerate(summary.final_accuracy or {}):
        cells = [written((values or {})[name]) for values, written in measures.values()]
        table.add_row(cell(name) + (" (primary)" if number == 0 else ""), *cells)
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


def plain_table(headings: Sequence[str], rows: Sequence[Sequence[str]], title: str) -> WholeWords:
    """Columns as wide as their cells; a long heading folds before a number is cut."""
    table = new_table(title)
    for number, heading in enumerate(headings):
        widest = max((len(row[number]) for row in rows), default=0)
        names = number == 0 and any(row[0][:1].isalpha() for row in rows)
        prose = names or any(" " in row[number] for row in rows)
        justify: JustifyMethod = "left" if prose else "right"
        table.add_column(
            cell(heading), justify=justify, min_width=None if prose else widest, overflow="fold"
        )
    for row in rows:
        table.add_row(*map(cell, row))
    return table


def cell(text: str) -> str:
    """As it is: no markup, nothing that commands a terminal."""
    return escape(printable(text))


def new_table(title: str) -> WholeWords:
    return WholeWords(printable(title))


def spreadsheet_cell(value: object) -> str:
    """Text that a spreadsheet would take for a formula gets an apostrophe before it."""
    text = str(value)
    number = text.replace(".", "", 1).lstrip("+-").isdigit()
    return f"'{text}" if text[:1] in ("=", "+", "-", "@", "\t", "\r") and not number else text


def listing(rows: Sequence[tuple[str, str]]) -> Table:
    """Names and what they are, without lines."""
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(no_wrap=True)
    table.add_column()
    for row in rows:
        table.add_row(*row)
    return table
