"""report.html: one self-contained page of a run, which opens from disk without a network."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml

from anchorfl.diagnose import diagnose, repeats
from anchorfl.files import write_whole
from anchorfl.report.glossary import glossary
from anchorfl.report.numbers import counted
from anchorfl.report.page_charts import charts_of
from anchorfl.report.page_head import accuracy_head, costs
from anchorfl.report.page_tables import class_table, confusions, label_table, site_table
from anchorfl.runs import Run

EMPTY: dict[str, Any] = {
    "accuracy": None,
    "tables": [],
    "more_tables": [],
    "numbers": [],
    "verdicts": [],
    "warnings": [],
    "charts": [],
    "sites": None,
    "partition": None,
    "by_class": None,
    "measured_on": "",
    "confusion": [],
    "texts": [],
    "glossary": [],
}
PARTS = {"/*STYLE*/": "page.css", "/*CHART*/": "page_chart.js"}


def write_page(run: Run, path: Path | None = None) -> Path:
    """The page of a run, by default in its folder."""
    return fill_page(page_data(run), path or run.files.page)


def fill_page(data: dict[str, Any], path: Path) -> Path:
    """The template with its data; what is not given is left out of the page."""
    own = files("anchorfl.report")
    page = own.joinpath("page.html").read_text()
    for mark, name in PARTS.items():
        page = page.replace(mark, own.joinpath(name).read_text())
    content = json.dumps({**EMPTY, **data}, allow_nan=False).replace("<", "\\u003c")
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, page.replace("/*DATA*/", content))
    return path


def page_data(run: Run) -> dict[str, Any]:
    """Everything that the page shows; what a run does not have is left out."""
    verdicts = diagnose(run)
    warnings = [
        warning
        for warning in dict.fromkeys(run.summary.warnings)
        if not any(repeats(verdict, warning) for verdict in verdicts)
    ]
    return {
        "title": run.title,
        "subtitle": subtitle(run),
        "accuracy": accuracy_head(run.summary),
        "numbers": costs(run),
        "verdicts": [{"text": each.text, "problem": each.problem} for each in verdicts],
        "warnings": warnings,
        "charts": [chart for chart in charts_of(run) if chart["series"]],
        "sites": site_table(run),
        "partition": label_table(run.summary),
        "by_class": class_table(run.summary),
        "measured_on": run.summary.measured_on(),
        "confusion": confusions(run.summary),
        "texts": texts(run),
        "glossary": glossary(run),
    }


def subtitle(run: Run) -> str:
    settings = run.settings
    clients = f"{settings['partition.clients']} clients, {settings['partition.kind']}"
    who = f"{clients}, alpha {settings['partition.alpha']}"
    if run.summary.sites:
        who = counted(len(run.summary.sites), "site")
    epochs = counted(run.train.local_epochs, "local epoch")
    return (
        f"{who}, seed {settings['seed']},"
        f" {counted(run.train.rounds, 'round')} of {epochs} · {run.folder.name}"
    )


def texts(run: Run) -> list[tuple[str, str]]:
    configuration = yaml.safe_dump(dict(run.settings), sort_keys=False)
    parts = [("Resolved configuration", configuration)]
    if run.summary.environment:
        environment = yaml.safe_dump(run.summary.environment, sort_keys=False)
        parts.append(("Environment", environment))
    return parts
