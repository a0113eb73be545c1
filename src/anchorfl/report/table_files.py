"""A table of the console as a file."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path

from anchorfl.errors import UserError
from anchorfl.files import whole, write_whole
from anchorfl.report.lambda_tables import markdown
from anchorfl.report.latex import PACKAGES, latex_table
from anchorfl.report.tables import spreadsheet_cell


def check_table_name(path: Path) -> None:
    if path.suffix not in (".md", ".csv", ".tex"):
        raise UserError(f"{path}: a table's name must end in .md, .csv or .tex")


def write_table(title: str, headings: Sequence[str], rows: Sequence[Sequence[str]], path: Path) -> None:
    """Markdown, LaTeX or CSV, by the file's name."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".md":
        write_whole(path, markdown(headings, rows))
    elif path.suffix == ".tex":
        write_whole(path, PACKAGES + latex_table(path.stem, f"{title}.", headings, rows))
    else:
        write_csv((headings, *rows), path)


def write_csv(rows: Iterable[Sequence[object]], path: Path) -> None:
    """No cell of it is a formula to a spreadsheet."""
    with whole(path) as place, place.open("w", newline="") as file:
        csv.writer(file).writerows(map(spreadsheet_cell, row) for row in rows)
