"""The page of a comparison: the tables, the curves with their spread, and a link to every run."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any
from urllib.parse import quote

from anchorfl.report.compare.charts import Chart, Line, charts_of
from anchorfl.report.compare.groups import Group, all_fusions, one_line, seed_of
from anchorfl.report.compare.table import Table, fusion_words, note_on, setting
from anchorfl.report.glossary import comparison_glossary
from anchorfl.report.numbers import percent, quantity
from anchorfl.report.page import fill_page
from anchorfl.report.page_charts import Series, curve
from anchorfl.runs import Run

SPREAD = "Lines are means over seeds, bands reach from the lowest seed to the highest."


def write_page(groups: Sequence[Group], tables: Sequence[Table], path: Path) -> Path:
    runs = [run for group in groups for run in group.runs]
    content = {
        "title": "Comparison",
        "subtitle": f"{setting(groups)}. {note_on(groups)} {SPREAD}",
        "tables": list(map(shown, tables)),
        "charts": list(map(chart_data, charts_of(groups))),
        "more_tables": [runs_table(groups, path)],
        "glossary": comparison_glossary(runs, baseline=len(tables) > 1),
    }
    return fill_page(content, path)


def shown(table: Table) -> dict[str, Any]:
    return {**asdict(table), "best": sorted(table.best)}


def chart_data(chart: Chart) -> dict[str, Any]:
    return {
        "title": chart.title,
        "log": chart.log,
        "scale": chart.quantity,
        "colour": chart.colour,
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
            link = {"text": one_line(run.folder.resolve().name), "link": link_to(run, page)}
            cells = [percent(run.summary.accuracy(name)) for name in fusions]
            rows.append([link, group.label, seed_of(run), *cells, quantity(run.largest_lambda)])
    marked = (fusion_words(name, groups) for name in fusions)
    headings = ["run", "method", "seed", *marked, "largest lambda"]
    title = "every run: accuracy, %"
    return {"title": title, "headings": headings, "rows": rows, "names": 2, "best": []}


def link_to(run: Run, page: Path) -> str:
    """From the page's place to the run's page, or to its folder where it has none."""
    target = run.files.page if run.files.page.is_file() else run.folder
    return quote(Path(os.path.relpath(target.resolve(), page.resolve().parent)).as_posix())
