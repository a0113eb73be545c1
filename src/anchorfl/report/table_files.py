"""Tables as files: Markdown and LaTeX to print, CSV to go on with."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from anchorfl.errors import UserError
from anchorfl.files import whole, write_whole
from anchorfl.report.console import spreadsheet_cell
from anchorfl.report.latex import PACKAGES, latex_table


@dataclass(frozen=True)
class Table:
    """The first `names` columns are words, the others numbers; `best` are (row, column)."""

    name: str
    title: str
    headings: list[str]
    rows: list[list[str]]
    names: int = 1
    best: frozenset[tuple[int, int]] = frozenset()


def check_table_name(path: Path) -> None:
    if path.suffix not in (".md", ".csv", ".tex"):
        raise UserError(f"{path}: a table's name must end in .md, .csv or .tex")


def write_tables(
    tables: Sequence[Table], path: Path, note: str = "", rows: Iterable[Sequence[object]] = ()
) -> None:
    """Markdown and LaTeX with a note, or the rows as CSV, by the file's name."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".csv":
        with whole(path) as place, place.open("w", newline="") as file:
            csv.writer(file).writerows(map(spreadsheet_cell, row) for row in rows)
    elif path.suffix == ".md":
        write_whole(path, "\n".join([*map(in_markdown, tables), f"{note}\n"]))
    else:
        written = [PACKAGES]
        for table in tables:
            caption = f"{table.title}. {note if table is tables[0] else ''}".rstrip()
            label = f"{path.stem}-{table.name}".rstrip("-")
            written.append(
                latex_table(label, caption, table.headings, table.rows, table.names, table.best)
            )
        write_whole(path, "\n".join(written))


def in_markdown(table: Table) -> str:
    """Under its title, and the best means in bold."""
    rows = [[cell.replace("|", r"\|") for cell in row] for row in (table.headings, *table.rows)]
    for row, column in table.best:
        number, *rest = rows[row + 1][column].split(" ± ")
        rows[row + 1][column] = " ± ".join([f"**{number}**", *rest])
    return f"{table.title[:1].upper()}{table.title[1:]}\n\n{markdown(rows[0], rows[1:])}"


def markdown(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [list(headings), ["---"] * len(headings), *map(list, rows)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines) + "\n"
