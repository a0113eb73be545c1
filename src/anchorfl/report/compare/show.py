"""`anchorfl compare`: the tables on the console, and what else was asked for as files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from anchorfl.report.compare.charts import charts_of
from anchorfl.report.compare.figures import write_figures
from anchorfl.report.compare.files import write_tables
from anchorfl.report.compare.groups import Group, baseline_of, group_runs
from anchorfl.report.compare.page import write_page
from anchorfl.report.compare.table import (
    Table,
    accuracy_by_fusion,
    accuracy_table,
    difference_table,
    note_on,
    setting,
)
from anchorfl.report.console import say
from anchorfl.report.table_files import check_table_name
from anchorfl.report.tables import cell, new_table
from anchorfl.report.whole_words import WholeWords
from anchorfl.runs import Run


def show_comparison(
    console: Console,
    runs: Sequence[Run],
    baseline: str | None,
    page: Path | None,
    table: Path | None,
    figures: Path | None = None,
) -> None:
    if table is not None:
        check_table_name(table)
    groups = group_runs(runs)
    reference = None if baseline is None else baseline_of(groups, baseline)
    differences = [] if reference is None else [difference_table(groups, reference)]
    differences = [table for table in differences if table.rows]
    tables = [accuracy_table(groups), *differences]
    for each in [accuracies_that_fit(console, groups), *differences]:
        console.print(console_table(each))
    if reference is not None and len(groups) > 1 and not differences:
        say(console, f"No difference: nothing else has a fusion and a seed of {reference.label}.")
    say(console, note_on(groups))
    if page is not None:
        say(console, f"page: {write_page(groups, tables, page)}")
    if table is not None:
        write_tables(groups, tables, table)
        say(console, f"table: {table}")
    if figures is not None:
        for path in write_figures(charts_of(groups), setting(groups), figures):
            say(console, f"figure: {path}")


def accuracies_that_fit(console: Console, groups: Sequence[Group]) -> Table:
    """A column per fusion where the console is wide enough, else a row."""
    wide = accuracy_table(groups)
    return wide if console_table(wide).fits_unfolded(console) else accuracy_by_fusion(groups)


def console_table(table: Table) -> WholeWords:
    """A number never folds."""
    shown = new_table(table.title)
    for number, heading in enumerate(table.headings):
        is_name = number < table.names
        widest = max((len(row[number]) for row in table.rows), default=0)
        shown.add_column(
            cell(heading),
            justify="left" if is_name else "right",
            min_width=None if is_name else widest,
            overflow="fold",
        )
    for row in table.rows:
        shown.add_row(*map(cell, row))
    return shown
