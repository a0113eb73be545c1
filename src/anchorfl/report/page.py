"""report.html: one self-contained page of a run, which opens from disk without a network."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml

from anchorfl.diagnose import diagnose
from anchorfl.files import write_whole
from anchorfl.report.page_charts import charts_of
from anchorfl.runs import Run, Summary

EMPTY: dict[str, Any] = {
    "table": None,
    "numbers": [],
    "verdicts": [],
    "warnings": [],
    "charts": [],
    "partition": None,
    "confusion": [],
    "texts": [],
}


def write_page(run: Run, path: Path | None = None) -> Path:
    """The page of a run, by default in its folder."""
    return fill_page(page_data(run), path or run.files.page)


def fill_page(data: dict[str, Any], path: Path) -> Path:
    """The template with its data; what is not given is left out of the page."""
    template = files("anchorfl.report").joinpath("page.html").read_text()
    content = json.dumps({**EMPTY, **data}, allow_nan=False).replace("<", "\\u003c")
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, template.replace("/*DATA*/", content))
    return path


def page_data(run: Run) -> dict[str, Any]:
    """Everything that the page shows; what a run does not have is left out."""
    return {
        "title": f"{run.method} on {run.summary.dataset or run.settings.get('data.name')}",
        "subtitle": subtitle(run),
        "numbers": headline(run),
        "verdicts": [{"text": each.text, "problem": each.problem} for each in diagnose(run)],
        "warnings": list(dict.fromkeys(run.summary.warnings)),
        "charts": [chart for chart in charts_of(run) if chart["series"]],
        "partition": label_table(run),
        "confusion": confusions(run),
        "texts": texts(run),
    }


def subtitle(run: Run) -> str:
    settings = run.settings
    draw = f"{settings['partition.kind']}, alpha {settings['partition.alpha']}"
    local = run.train.local_epochs
    epochs = f"{local} local epoch{'s' if local > 1 else ''}"
    return (
        f"{settings['partition.clients']} clients, {draw}, seed {settings['seed']},"
        f" {run.train.rounds} rounds of {epochs} · {run.folder.name}"
    )


def headline(run: Run) -> list[tuple[str, str]]:
    summary = run.summary
    numbers = [("status", summary.status)]
    for name, value in (summary.final_accuracy or {}).items():
        numbers.append((f"{name}, final accuracy", f"{100 * value:.1f} %"))
    alone = summary.best_client()
    if alone is not None:
        numbers.append(("best single client", f"{100 * alone:.1f} %"))
    largest = run.largest_lambda
    if largest is not None:
        shown = f"{largest:,.0f}" if largest >= 100 else f"{largest:.3g}"
        numbers.append(("largest raw lambda", shown))
    if summary.samples_per_second and summary.seconds:
        numbers.append(("training samples/s", f"{summary.samples_per_second:,.0f}"))
        numbers.append(("whole run", f"{summary.seconds:,.0f} s"))
    sizes = [size for size in summary.upload_bytes if size]
    if sizes:
        numbers.append(("largest upload", f"{max(sizes) / 1e6:.2f} MB"))
    return numbers + primary_costs(summary)


def primary_costs(summary: Summary) -> list[tuple[str, str]]:
    """Of the fusion that makes the predictor; runs of an earlier version do not hold them."""
    name = next(iter(summary.prediction_ms or {}), None)
    if name is None or not summary.prediction_ms or not summary.prediction_flops:
        return []
    milliseconds, flops = summary.prediction_ms[name], summary.prediction_flops[name]
    errors = summary.calibration_error or {}
    return [
        (f"{name}, per image ({flops / 1e6:,.1f} MFLOP)", f"{milliseconds:.2f} ms"),
        (f"{name}, calibration error", f"{100 * errors[name]:.1f} points"),
    ]


def label_table(run: Run) -> dict[str, Any] | None:
    if not run.summary.label_table:
        return None
    rows = [[str(client), *row] for client, row in enumerate(run.summary.label_table)]
    return {"classes": run.summary.class_names, "rows": rows}


def confusions(run: Run) -> list[dict[str, Any]]:
    names, found = run.summary.class_names or [], []
    for fusion, matrix in (run.summary.confusion or {}).items():
        rows = [
            [names[label], *row, f"{100 * row[label] / sum(row):.1f}" if sum(row) else "."]
            for label, row in enumerate(matrix)
        ]
        found.append({"fusion": fusion, "classes": names, "rows": rows})
    return found


def texts(run: Run) -> list[tuple[str, str]]:
    configuration = yaml.safe_dump(dict(run.settings), sort_keys=False)
    parts = [("Resolved configuration", configuration)]
    if run.summary.environment:
        environment = yaml.safe_dump(run.summary.environment, sort_keys=False)
        parts.append(("Environment", environment))
    return parts
