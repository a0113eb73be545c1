"""The page of a comparison: the tables, the curves with their spread, and a link to every run."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from anchorfl.report.compare.charts import Chart, Line, charts_of
from anchorfl.report.compare.groups import Group, all_fusions, one_line, seed_of
from anchorfl.report.compare.table import Table, draws_of, setting
from anchorfl.report.numbers import percent, quantity
from anchorfl.report.page import fill_page
from anchorfl.report.page_charts import Series, curve
from anchorfl.runs import Run

SPREAD = "mean over seeds, band from the lowest to the highest seed"


def write_page(groups: Sequence[Group], tables: Sequence[Table], path: Path) -> Path:
    content = {
        "title": "Comparison",
        "subtitle": f"{setting(groups)}. {draws_of(groups)}",
        "tables": list(map(shown, tables)),
        "charts": list(map(chart_data, charts_of(groups))),
        "more_tables": [runs_table(groups, path)],
    }
    return fill_page(content, path)


def shown(table: Table) -> dict[str, Any]:
    best = sorted(table.best)
    return {"title": table.title, "headings": table.headings, "rows": table.rows, "best": best}


def chart_data(chart: Chart) -> dict[str, Any]:
    title = f"{chart.title}: {SPREAD}" if chart.log else f"{chart.title}, {chart.quantity}: {SPREAD}"
    return {
        "title": title,
        "log": chart.log,
        "limits": list(chart.limits),
        "series": list(map(series, chart.lines)),
    }


def series(line: Line) -> Series:
    dash = "7 4" if line.dashed else ""
    more = {"legend": line.label, "dash": dash, "low": line.low, "high": line.high}
    return curve(line.label, line.rounds, line.middle, line.colour, **more)


def runs_table(groups: Sequence[Group], page: Path) -> dict[str, Any]:
    """Every run by itself."""
    fusions = all_fusions(groups)
    rows = []
    for group in groups:
        for run in group.runs:
            link = {"text": one_line(run.folder.name), "link": link_to(run, page)}
            cells = [percent(run.summary.accuracy(name)) for name in fusions]
            rows.append([link, group.label, seed_of(run), *cells, quantity(run.largest_lambda)])
    headings = ["run", "method", "seed", *map(one_line, fusions), "largest lambda"]
    return {"title": "every run: accuracy, %", "headings": headings, "rows": rows, "best": []}


def link_to(run: Run, page: Path) -> str:
    """From the page's place to the run's page, or to its folder where it has none."""
    target = run.files.page if run.files.page.is_file() else run.folder
    return quote(Path(os.path.relpath(target.resolve(), page.resolve().parent)).as_posix())
