"""The page of a comparison: the tables, the curves with their spread, and a link to every run."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any
from urllib.parse import quote

from anchorfl.report.compare.charts import charts_of
from anchorfl.report.compare.groups import Group, all_fusions, one_line, seed_of
from anchorfl.report.compare.table import fusion_words, note_on, setting
from anchorfl.report.glossary import glossary
from anchorfl.report.numbers import percent, quantity
from anchorfl.report.page import fill_page
from anchorfl.report.table_files import Table

SPREAD = "Lines are means over seeds, bands reach from the lowest seed to the highest."


def write_page(groups: Sequence[Group], tables: Sequence[Table], path: Path) -> Path:
    runs = [run for group in groups for run in group.runs]
    content = {
        "title": "Comparison",
        "subtitle": f"{setting(groups)}. {note_on(groups)} {SPREAD}",
        "tables": [{**asdict(table), "best": sorted(table.best)} for table in tables],
        "charts": list(map(asdict, charts_of(groups))),
        "more_tables": [runs_table(groups, path)],
        "glossary": glossary(runs, baseline=len(tables) > 1),
    }
    return fill_page(content, path)


def runs_table(groups: Sequence[Group], page: Path) -> dict[str, Any]:
    """Every run by itself, with a link to its page, or to its folder where it has none."""
    fusions = all_fusions(groups)
    rows = []
    for group in groups:
        for run in group.runs:
            target = run.files.page if run.files.page.is_file() else run.folder
            place = Path(os.path.relpath(target.resolve(), page.resolve().parent)).as_posix()
            link = {"text": one_line(run.folder.resolve().name), "link": quote(place)}
            cells = [percent(run.summary.accuracy(name)) for name in fusions]
            rows.append([link, group.label, seed_of(run), *cells, quantity(run.largest_lambda)])
    marked = (fusion_words(name, groups) for name in fusions)
    headings = ["run", "method", "seed", *marked, "largest lambda"]
    title = "every run: accuracy, %"
    return {"title": title, "headings": headings, "rows": rows, "names": 2, "best": []}
