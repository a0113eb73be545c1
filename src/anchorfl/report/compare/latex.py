"""Tables in LaTeX, for a document that has `\\usepackage{booktabs}`."""

from __future__ import annotations

import re
from collections.abc import Sequence

from anchorfl.report.compare.table import Table
from anchorfl.report.numbers import NONE

SPECIAL = {
    **{each: f"\\{each}" for each in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "[": "{[}",
    "±": r"$\pm$",
}
"""A bracket that begins a row would be an option of the line break before it."""
NUMBER = re.compile(r"[+-]?\d+(\.\d+)?( ± \d+\.\d)?")


def latex(tables: Sequence[Table], note: str) -> str:
    """A `table` each; the note ends the first caption."""
    notes = [f". {note}", *["."] * (len(tables) - 1)]
    parts = [latex_table(table, end) for table, end in zip(tables, notes, strict=True)]
    return "% needs \\usepackage{booktabs}\n" + "\n".join(parts)


def latex_table(table: Table, end: str) -> str:
    columns = "l" * table.names + "r" * (len(table.headings) - table.names)
    rows = [
        [latex_cell(text, (row, column) in table.best) for column, text in enumerate(cells)]
        for row, cells in enumerate(table.rows)
    ]
    caption = escaped(table.title[:1].upper() + table.title[1:] + end)
    lines = [
        r"\begin{table}",
        r"  \centering",
        rf"  \caption{{{caption}}}",
        rf"  \begin{{tabular}}{{{columns}}}",
        r"    \toprule",
        latex_row(list(map(escaped, table.headings))),
        r"    \midrule",
        *map(latex_row, rows),
        r"    \bottomrule",
        r"  \end{tabular}",
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def latex_row(cells: Sequence[str]) -> str:
    return f"    {' & '.join(cells)} \\\\"


def latex_cell(text: str, best: bool) -> str:
    """A mean, alone or with its deviation, as a formula: the minus is one, and the best is bold."""
    if text == NONE:
        return "--"
    if not NUMBER.fullmatch(text):
        return escaped(text)
    number, *rest = text.split(" ± ")
    return "$" + r" \pm ".join([rf"\mathbf{{{number}}}" if best else number, *rest]) + "$"


def escaped(text: str) -> str:
    return "".join(SPECIAL.get(each, each) for each in text)
