"""The tables on a run's page: its sites, who holds what, accuracy by class, confusion."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np

from anchorfl.objective import label_entropy
from anchorfl.report.colours import fusion_colour
from anchorfl.report.numbers import NONE, megabytes, percent, quantity
from anchorfl.report.tables import largest
from anchorfl.runs import Run, Summary

Table = dict[str, Any]
T = TypeVar("T")


def recalls(summary: Summary) -> dict[str, list[float | None]]:
    """By fusion, of every class: the share of its test images that are recognised; None without any."""
    return {
        fusion: [row[label] / sum(row) if sum(row) else None for label, row in enumerate(matrix)]
        for fusion, matrix in (summary.confusion or {}).items()
    }


def class_table(summary: Summary) -> Table | None:
    """Recall in percent, a row per class and a column per fusion, the primary one first."""
    found = recalls(summary)
    if not found or not summary.class_names:
        return None
    primary, *others = found
    headings = [f"{primary} (primary)", *others]
    by_class = zip(summary.class_names, *found.values(), strict=True)
    return {
        "headings": ["class", *headings],
        "rows": [[name, *map(percent, shares)] for name, *shares in by_class],
        "colours": dict(zip(headings, map(fusion_colour, found), strict=True)),
        "fold": True,
    }


def site_table(run: Run) -> Table | None:
    """A row per client: what it holds, how it trained, what it sent; columns without a number go."""
    clients = range(max(len(run.summary.label_table or []), len(run.clients)))
    if not clients:
        return None
    rows = [site_row(run, client) for client in clients]
    kept = [name for name in rows[0] if any(row[name] != NONE for row in rows)]
    return {
        "headings": kept,
        "rows": [[row[name] for name in kept] for row in rows],
        "left": ["largest classes"],
        "fold": True,
    }


def site_row(run: Run, client: int) -> dict[str, str]:
    summary = run.summary
    counts = at(summary.label_table, client) or []
    names = summary.class_names if sum(counts) else None
    alone = run.evaluations[-1]["local_accuracy"] if run.evaluations else None
    last = (run.clients.get(client) or [{}])[-1]
    size = at(summary.upload_bytes, client)
    return {
        who(summary): f"{client} {site_name(summary, client)}".rstrip(),
        "samples": f"{sum(counts):,}" if counts else NONE,
        "classes": str(sum(count > 0 for count in counts)) if names else NONE,
        "largest classes": largest(np.array(counts), names) if names else NONE,
        "effective classes": quantity(2 ** label_entropy(counts)) if names else NONE,
        "accuracy on its held-out images, %": percent(at(summary.site_accuracy, client)),
        "own model's accuracy, %": percent(at(alone, client)),
        "largest lambda": quantity(run.largest_lambda_of(client)),
        "upload": NONE if size is None else megabytes(size),
        "base loss B, last": quantity(last.get("base_loss")),
        "align loss A, last": quantity(last.get("align_loss")),
    }


def at(values: Sequence[T] | None, client: int) -> T | None:
    """None where a run holds nothing of a client."""
    return values[client] if values and client < len(values) else None


def who(summary: Summary) -> str:
    """What a row of the tables is called: client where it has no name."""
    return "site" if summary.sites else "client"


def site_name(summary: Summary, client: int) -> str:
    """Empty where clients are numbers alone."""
    return at(summary.sites, client) or ""


def label_table(summary: Summary) -> Table | None:
    """Samples by client and class; sites by their names."""
    if not summary.label_table or not summary.class_names:
        return None
    table = enumerate(summary.label_table)
    rows = [[site_name(summary, client) or str(client), *row] for client, row in table]
    return {"who": who(summary), "classes": summary.class_names, "rows": rows}


def confusions(summary: Summary) -> list[Table]:
    """By fusion: what was taken for what."""
    names = summary.class_names or []
    return [
        {
            "fusion": fusion,
            "colour": fusion_colour(fusion),
            "classes": names,
            "rows": [[name, *row] for name, row in zip(names, matrix, strict=True)],
        }
        for fusion, matrix in (summary.confusion or {}).items()
        if names
    ]
