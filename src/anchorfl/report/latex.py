"""Tables in LaTeX, for a document that has `\\usepackage{booktabs}`."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from anchorfl.report.console import file_word
from anchorfl.report.numbers import NONE

PACKAGES = "% needs \\usepackage{booktabs}"
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


def latex_table(
    label: str,
    caption: str,
    headings: Sequence[str],
    rows: Sequence[Sequence[str]],
    names: int = 1,
    best: Collection[tuple[int, int]] = (),
) -> str:
    """A `table` with a caption and `\\label{tab:...}`; the first `names` columns are words."""
    columns = "l" * names + "r" * (len(headings) - names)
    cells = [
        [latex_cell(text, (row, column) in best) for column, text in enumerate(line)]
        for row, line in enumerate(rows)
    ]
    head, *body = [f"    {' & '.join(row)} \\\\" for row in ([*map(escaped, headings)], *cells)]
    lines = [
        r"\begin{table}",
        r"  \centering",
        rf"  \caption{{{escaped(caption[:1].upper() + caption[1:])}}}",
        rf"  \label{{tab:{file_word(label)}}}",
        rf"  \begin{{tabular}}{{{columns}}}",
        r"    \toprule",
        head,
        r"    \midrule",
        *body,
        r"    \bottomrule",
        r"  \end{tabular}",
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


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
