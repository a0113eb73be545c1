"""report.html: one self-contained page of a run, which opens from disk without a network."""

from __future__ import annotations

import json
from dataclasses import asdict
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml

from anchorfl.diagnose import diagnose, repeats
from anchorfl.files import write_whole
from anchorfl.report.charts import BEST_CLIENT, run_charts
from anchorfl.report.colours import NEUTRAL, fusion_colour
from anchorfl.report.glossary import glossary
from anchorfl.report.numbers import counted, megabytes, percent, quantity
from anchorfl.report.page_tables import class_table, confusions, label_table, recalls, site_table
from anchorfl.runs import Run, Summary

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
    content = json.dumps(data, allow_nan=False).replace("<", "\\u003c")
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, page.replace("/*DATA*/", content))
    return path


def page_data(run: Run) -> dict[str, Any]:
    """Everything that the page shows; what a run does not have is left out."""
    verdicts, warnings = diagnose(run), dict.fromkeys(run.summary.warnings)
    return {
        "title": run.title,
        "subtitle": subtitle(run),
        "accuracy": accuracy_head(run.summary),
        "numbers": costs(run),
        "verdicts": [{"text": each.text, "problem": each.problem} for each in verdicts],
        "warnings": [each for each in warnings if not any(repeats(own, each) for own in verdicts)],
        "charts": [asdict(chart) for chart in run_charts(run) if chart.series],
        "sites": site_table(run),
        "partition": label_table(run.summary),
        "by_class": class_table(run.summary),
        "measured_on": run.summary.measured_on(),
        "confusion": confusions(run.summary),
        "texts": texts(run),
        "glossary": glossary([run]),
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


def accuracy_head(summary: Summary) -> dict[str, Any] | None:
    """The primary fusion's accuracy, its worst class, and beside them what else was evaluated."""
    if not summary.final_accuracy:
        return None
    bars = [bar(name, share, fusion_colour(name)) for name, share in summary.final_accuracy.items()]
    alone = summary.best_client()
    if alone is not None:
        bars.append(bar(BEST_CLIENT, alone, NEUTRAL))
    primary = bars[0]["name"]
    images = summary.test_images()
    tested = "" if images is None else f", {images:,} {summary.measured_on()}"
    what = "accuracy" if summary.site_accuracy is not None else "test accuracy"
    return {
        **bars[0],
        "words": f"{what} of {primary} (makes the predictor){tested}",
        "worst": worst_class(summary, primary),
        "others": bars[1:],
    }


def bar(name: str, share: float, colour: str) -> dict[str, Any]:
    return {"name": name, "value": f"{percent(share)} %", "share": share, "colour": colour}


def worst_class(summary: Summary, fusion: str) -> str | None:
    """The class of the smallest recall, by name, where the run holds what was taken for what."""
    named = zip(recalls(summary).get(fusion, []), summary.class_names or [], strict=False)
    tested = [(share, name) for share, name in named if share is not None]
    if not tested:
        return None
    share, name = min(tested, key=lambda pair: pair[0])
    return f"worst class: {name}, {percent(share)} %"


def costs(run: Run) -> list[tuple[str, str]]:
    """How the run ended, what its lambda reached, and what it took; of fusions the primary one's."""
    summary = run.summary
    numbers = [("status", summary.status)]
    if run.largest_lambda is not None:
        numbers.append(("largest lambda", quantity(run.largest_lambda)))
    for name, milliseconds in list((summary.prediction_ms or {}).items())[:1]:
        error = (summary.calibration_error or {}).get(name)
        if error is not None:
            numbers.append((f"{name}, calibration error", f"{percent(error)} %"))
        operations = quantity((summary.prediction_flops or {}).get(name, 0.0) / 1e6)
        numbers.append((f"{name}, per image ({operations} MFLOP)", f"{quantity(milliseconds)} ms"))
    sizes = [size for size in summary.upload_bytes if size]
    if sizes:
        numbers.append(("largest upload", megabytes(max(sizes))))
    if summary.samples_per_second and summary.seconds:
        numbers.append(("whole run", f"{quantity(summary.seconds)} s"))
        numbers.append(("training samples/s", quantity(summary.samples_per_second)))
    return numbers


def texts(run: Run) -> list[tuple[str, str]]:
    parts = {"Resolved configuration": run.settings, "Environment": run.summary.environment}
    return [
        (heading, yaml.safe_dump(dict(content), sort_keys=False))
        for heading, content in parts.items()
        if content
    ]
