"""The charts on a run's page: accuracy, and what every client reported, lambda among it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

from anchorfl.report.colours import NEUTRAL, PALETTE, fusion_colour
from anchorfl.report.numbers import in_words
from anchorfl.report.page_tables import site_name
from anchorfl.report.tables import best_client
from anchorfl.runs import Record, Run

COLOURS = PALETTE
"""Of clients and of groups of runs, by their place."""
MANY = 12
Series = dict[str, Any]


def curve(name: str, x: Sequence[int], y: Sequence[float | None], colour: str, **more: Any) -> Series:
    """One line of a chart; `legend` names its button, `group` what the button hides."""
    return {"name": name, "x": list(x), "y": list(y), "colour": colour, "group": name, **more}


def charts_of(run: Run) -> list[dict[str, Any]]:
    """Accuracy, lambda, losses, sigmas, norms, gradient shares and clipping, by round."""
    by_client = [
        ("raw lambda (solid), effective lambda (dashed), stationary lambda (dotted)", True,
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
    """A line per fusion, dotted where another has its colour already, and the best single client's."""
    points = run.evaluations
    if not points:
        return []
    rounds = [point["round"] for point in points]
    series: list[Series] = []
    for name in points[0]["accuracy"]:
        values = [100 * point["accuracy"][name] for point in points]
        colour = fusion_colour(name)
        dash = "2 3" if any(each["colour"] == colour for each in series) else ""
        series.append(curve(name, rounds, values, colour, legend=name, dash=dash, width=2.4))
    best = [best_client(point["local_accuracy"]) for point in points]
    alone = [100 * value for value in best if value is not None]
    if len(alone) == len(rounds):
        series.append(
            curve("best client", rounds, alone, NEUTRAL, legend="best single client", dash="7 4")
        )
    return series


def client_series(run: Run, fields: dict[str, str]) -> list[Series]:
    """A line per client and field; for many clients their median, smallest and largest instead."""
    if len(run.clients) > MANY:
        return spread_series(run, fields)
    series = []
    for index, (client, records) in enumerate(run.clients.items()):
        rounds = [record["round"] for record in records]
        colour, named = COLOURS[index % len(COLOURS)], False
        for name, dash in fields.items():
            values = [record.get(name) for record in records]
            if any(value is not None for value in values):
                label = None if named else site_name(run.summary, client) or f"client {client}"
                named = True
                title = f"{client}" if not dash else f"{client} {name.rsplit('_', 1)[1]}"
                each = curve(title, rounds, values, colour, legend=label, dash=dash)
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
                title = f"{in_words(name)}, {label}"
                width = 2.4 if label == "median" else 1.0
                each = curve(title, list(by_round), values, COLOURS[index], dash=dash, width=width)
                series.append({**each, "legend": title})
    return series
