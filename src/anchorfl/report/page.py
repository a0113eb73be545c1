"""report.html: one self-contained page of a run, which opens from disk without a network."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from statistics import median
from typing import Any

import yaml

from anchorfl.diagnose.verdicts import diagnose
from anchorfl.records import Record, Run
from anchorfl.report.tables import best_client

COLOURS = ["#0b84b5", "#d9730d", "#0f9b86", "#c2388c", "#8458c9", "#9a6b4f", "#5d7f1f", "#b0382f"]
MANY = 12
Series = dict[str, Any]


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
    return fill_page(page_data(run), path or run.folder / "report.html")


def fill_page(data: dict[str, Any], path: Path) -> Path:
    """The template with its data; what is not given is left out of the page."""
    template = files("anchorfl.report").joinpath("page.html").read_text()
    content = json.dumps({**EMPTY, **data}, allow_nan=False).replace("<", "\\u003c")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(template.replace("/*DATA*/", content))
    return path


def page_data(run: Run) -> dict[str, Any]:
    """Everything that the page shows; what a run does not have is left out."""
    summary = run.summary or {}
    dataset = summary.get("dataset", run.settings.get("data.name"))
    return {
        "title": f"{run.method} on {dataset}",
        "subtitle": subtitle(run),
        "numbers": headline(run),
        "verdicts": [{"text": each.text, "problem": each.problem} for each in diagnose(run)],
        "warnings": list(dict.fromkeys(summary.get("warnings", []))),
        "charts": [chart for chart in charts(run) if chart["series"]],
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
    summary = run.summary or {}
    numbers = [("status", str(summary.get("status", "unfinished")))]
    for name, value in (summary.get("final_accuracy") or {}).items():
        numbers.append((f"{name}, final accuracy", f"{100 * value:.1f} %"))
    if summary.get("local_accuracy"):
        alone = best_client(summary["local_accuracy"])
        numbers.append(("best single client", f"{100 * alone:.1f} %"))
    largest = run.largest_lambda
    if largest is not None:
        told = f"{largest:,.0f}" if largest >= 100 else f"{largest:.3g}"
        numbers.append(("largest raw lambda", told))
    if summary.get("samples_per_second"):
        numbers.append(("training samples/s", f"{summary['samples_per_second']:,.0f}"))
        numbers.append(("whole run", f"{summary['seconds']:,.0f} s"))
    sizes = [size for size in summary.get("upload_bytes", []) if size]
    if sizes:
        numbers.append(("largest upload", f"{max(sizes) / 1e6:.2f} MB"))
    return numbers + primary_costs(summary)


def primary_costs(summary: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Of the fusion that makes the predictor; runs of an earlier version do not tell."""
    name = next(iter(summary.get("prediction_ms") or {}), None)
    if name is None:
        return []
    milliseconds, flops = summary["prediction_ms"][name], summary["prediction_flops"][name]
    return [
        (f"{name}, a prediction ({flops / 1e6:,.1f} MFLOP)", f"{milliseconds:.2f} ms"),
        (f"{name}, calibration error", f"{100 * summary['calibration_error'][name]:.1f} points"),
    ]


def curve(name: str, x: Sequence[int], y: Sequence[float | None], colour: str, **more: Any) -> Series:
    """One line of a chart; `legend` names its button, `group` what the button hides."""
    return {"name": name, "x": list(x), "y": list(y), "colour": colour, "group": name, **more}


def charts(run: Run) -> list[dict[str, Any]]:
    by_client = [
        ("lambda: raw (solid), effective (dashed), stationary (dotted)", True,
         {"lambda_raw": "", "lambda_effective": "7 4", "lambda_stationary": "2 3"}),
        ("base loss B", False, {"base_loss": ""}),
        ("align loss A", True, {"align_loss": ""}),
        ("sigma squared: local (solid), align (dashed)", True,
         {"sigma_sq_local": "", "sigma_sq_align": "7 4"}),
        ("prototype norms: classes held (solid), others (dashed)", False,
         {"prototype_norm_seen": "", "prototype_norm_unseen": "7 4"}),
        ("encoder's share of the squared gradient", False, {"gradient_share_encoder": ""}),
        ("clip factor", True, {"clip_factor": ""}),
    ]  # fmt: skip
    return [
        {"title": "test accuracy, %", "log": False, "series": accuracy_series(run)},
        *(
            {"title": title, "log": log, "series": client_series(run, fields)}
            for title, log, fields in by_client
        ),
    ]


def accuracy_series(run: Run) -> list[Series]:
    points = run.evaluations
    if not points:
        return []
    rounds = [point["round"] for point in points]
    series = []
    for index, name in enumerate(points[0]["accuracy"]):
        values = [100 * point["accuracy"][name] for point in points]
        series.append(
            curve(name, rounds, values, COLOURS[index % len(COLOURS)], legend=name, width=2.4)
        )
    alone = [100 * best_client(point["local_accuracy"]) for point in points]
    series.append(
        curve("best client", rounds, alone, "#888888", legend="best single client", dash="7 4")
    )
    return series


def client_series(run: Run, fields: dict[str, str]) -> list[Series]:
    """A line a client and field; for many clients their median, smallest and largest instead."""
    if len(run.clients) > MANY:
        return spread_series(run, fields)
    series = []
    for index, (client, records) in enumerate(run.clients.items()):
        rounds = [record["round"] for record in records]
        colour, named = COLOURS[index % len(COLOURS)], False
        for name, dash in fields.items():
            values = [record.get(name) for record in records]
            if any(value is not None for value in values):
                label = None if named else f"client {client}"
                named = True
                told = f"{client}" if not dash else f"{client} {name.rsplit('_', 1)[1]}"
                each = curve(told, rounds, values, colour, legend=label, dash=dash)
                series.append({**each, "group": f"client {client}"})
    return series


def spread_series(run: Run, fields: dict[str, str]) -> list[Series]:
    series = []
    measures: list[tuple[str, Callable[[Sequence[float]], float]]] = [
        ("median", median), ("smallest", min), ("largest", max)
    ]  # fmt: skip
    by_round: dict[int, list[Record]] = {}
    for records in run.clients.values():
        for record in records:
            by_round.setdefault(record["round"], []).append(record)
    for name, dash in fields.items():
        for index, (label, measure) in enumerate(measures):
            values: list[float | None] = []
            for records in by_round.values():
                found = [record[name] for record in records if record.get(name) is not None]
                values.append(measure(found) if found else None)
            if any(value is not None for value in values):
                told = f"{label} {name}"
                width = 2.4 if label == "median" else 1.0
                each = curve(told, list(by_round), values, COLOURS[index], dash=dash, width=width)
                series.append({**each, "legend": told})
    return series


def label_table(run: Run) -> dict[str, Any] | None:
    summary = run.summary or {}
    if "label_table" not in summary:
        return None
    rows = [[str(client), *row] for client, row in enumerate(summary["label_table"])]
    return {"classes": summary["class_names"], "rows": rows}


def confusions(run: Run) -> list[dict[str, Any]]:
    summary = run.summary or {}
    found = []
    for fusion, matrix in (summary.get("confusion") or {}).items():
        names = summary["class_names"]
        rows = [
            [names[label], *row, f"{100 * row[label] / sum(row):.1f}" if sum(row) else "."]
            for label, row in enumerate(matrix)
        ]
        found.append({"fusion": fusion, "classes": names, "rows": rows})
    return found


def texts(run: Run) -> list[tuple[str, str]]:
    summary = run.summary or {}
    configuration = yaml.safe_dump(dict(run.settings), sort_keys=False)
    parts = [("Resolved configuration", configuration)]
    if "environment" in summary:
        parts.append(("Environment", yaml.safe_dump(summary["environment"], sort_keys=False)))
    return parts
