"""A comparison as a file: Markdown and LaTeX to print, CSV to go on with."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from anchorfl.files import write_whole
from anchorfl.report.compare.groups import Group, seed_of
from anchorfl.report.compare.table import Table, note_on
from anchorfl.report.lambda_tables import markdown
from anchorfl.report.latex import PACKAGES, latex_table
from anchorfl.report.table_files import write_csv


def write_tables(groups: Sequence[Group], tables: Sequence[Table], path: Path) -> None:
    """In the form that the file's name asks for."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".csv":
        write_csv(tidy(groups), path)
    elif path.suffix == ".tex":
        write_whole(path, in_latex(tables, note_on(groups), path.stem))
    else:
        write_whole(path, "\n".join([*map(in_markdown, tables), f"{note_on(groups)}\n"]))


def in_latex(tables: Sequence[Table], note: str, stem: str) -> str:
    """The note ends the first caption; labels are told apart by the file's name."""
    notes = [f". {note}", *["."] * (len(tables) - 1)]
    return PACKAGES + "\n".join(
        latex_table(
            f"{stem}-{each.name}", each.title + end, each.headings, each.rows, each.names, each.best
        )
        for each, end in zip(tables, notes, strict=True)
    )


def in_markdown(table: Table) -> str:
    rows = [
        [in_bold(text) if (row, column) in table.best else text for column, text in enumerate(cells)]
        for row, cells in enumerate(table.rows)
    ]
    headings, *escaped = [[cell.replace("|", r"\|") for cell in row] for row in [table.headings, *rows]]
    return f"{table.title[:1].upper()}{table.title[1:]}\n\n{markdown(headings, escaped)}"


def in_bold(text: str) -> str:
    """The mean alone."""
    number, *rest = text.split(" ± ")
    return " ± ".join([f"**{number}**", *rest])


def tidy(groups: Sequence[Group]) -> list[list[object]]:
    """Headings, then a row per run and fusion with one value per cell; numbers are not rounded."""
    differing = list(dict.fromkeys(key for group in groups for key in group.settings))
    rows: list[list[object]] = [
        ["run", "method", *differing, "seed", "fusion", "accuracy", "largest lambda"]
    ]
    for group in groups:
        for run in group.runs:
            settings = [group.settings.get(key, run.settings.get(key, "")) for key in differing]
            largest = "" if run.largest_lambda is None else run.largest_lambda
            for name, share in (run.summary.final_accuracy or {}).items():
                accuracy = round(100 * share, 6)
                rows.append([run.folder, run.method, *settings, seed_of(run), name, accuracy, largest])
    return rows
