"""`anchorfl compare`: the tables on the console, and what else was asked for as files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from anchorfl.errors import UserError
from anchorfl.report.compare.charts import charts_of
from anchorfl.report.compare.groups import baseline_of, group_runs
from anchorfl.report.compare.page import write_page
from anchorfl.report.compare.table import (
    accuracy_by_fusion,
    accuracy_table,
    difference_table,
    note_on,
    setting,
    tidy,
)
from anchorfl.report.console import say
from anchorfl.report.figures import write_charts
from anchorfl.report.table_files import check_table_name, write_tables
from anchorfl.report.tables import plain_table, widths
from anchorfl.runs import Run, read_run


def finished_runs(console: Console, folders: Sequence[Path]) -> list[Run]:
    """Of several folders what is no finished run is named and left out; one alone is refused."""
    if len(folders) == 1:
        return [read_run(folders[0])]
    found = []
    for folder in folders:
        try:
            run = read_run(folder)
        except UserError as error:
            if not folder.exists():
                raise
            say(console, f"left out: {f'{folder}: is no run' if folder.is_file() else error}")
            continue
        if run.summary.status == "finished":
            found.append(run)
        else:
            say(console, f"left out: {folder}: is not finished")
    if not found:
        raise UserError("compare: name at least one finished run's folder")
    return found


def show_comparison(
    console: Console,
    runs: Sequence[Run],
    baseline: str | None = None,
    page: Path | None = None,
    table: Path | None = None,
    figures: Path | None = None,
) -> None:
    """The accuracy has a column per fusion where the console is wide enough, else a row."""
    if table is not None:
        check_table_name(table)
    groups = group_runs(runs)
    accuracy = accuracy_table(groups)
    shown = plain_table(accuracy.headings, accuracy.rows, accuracy.title)
    if widths(shown, console).maximum > console.width:
        by_fusion = accuracy_by_fusion(groups)
        shown = plain_table(by_fusion.headings, by_fusion.rows, by_fusion.title)
    console.print(shown)
    tables = [accuracy]
    if baseline is not None:
        reference = baseline_of(groups, baseline)
        difference = difference_table(groups, reference)
        if difference.rows:
            console.print(plain_table(difference.headings, difference.rows, difference.title))
            tables.append(difference)
        elif len(groups) > 1:
            say(console, f"No difference: nothing else has a fusion and a seed of {reference.label}.")
    say(console, note_on(groups))
    if page is not None:
        say(console, f"page: {write_page(groups, tables, page)}")
    if table is not None:
        write_tables(tables, table, note_on(groups), tidy(groups))
        say(console, f"table: {table}")
    if figures is not None:
        for path in write_charts(charts_of(groups), f"on {setting(groups)}", figures):
            say(console, f"figure: {path}")
