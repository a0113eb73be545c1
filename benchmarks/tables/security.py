"""The tables of docs/security.md: one lying site of five, with and without server.robust."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from statistics import mean

from benchmarks.tables.figures import RECORDS, Row, table

FUSIONS = ("sketch-guided", "class-mean", "joint-sketch-ridge")
RULES = ("off", "capped", "cross-checked")
LIES = ("honest", "labels flipped", "random encoder", "tenfold")


@dataclass(frozen=True)
class Found:
    """Accuracy in %, over seeds and liars."""

    mean: float
    worst: float


def by_lie(path: Path) -> dict[tuple[float, str, str, str], Found]:
    """By alpha, lie, fusion and rule."""
    values: dict[tuple[float, str, str, str], list[float]] = {}
    for line in path.read_text().splitlines():
        record = json.loads(line)
        for rule, accuracies in record["accuracy"].items():
            for fusion, share in accuracies.items():
                key = record["alpha"], record["lie"], fusion, rule
                values.setdefault(key, []).append(100 * share)
    return {key: Found(mean(own), min(own)) for key, own in values.items()}


def lies_at(alpha: float) -> list[Row]:
    found = by_lie(RECORDS / "lies.jsonl")
    rows = [["lie", "`server.robust`", *(f"`{fusion}`" for fusion in FUSIONS)]]
    for lie in LIES:
        for rule in RULES:
            cells = [found[alpha, lie, fusion, rule] for fusion in FUSIONS]
            rows.append([lie, rule, *(f"{each.mean:.1f} ({each.worst:.1f})" for each in cells)])
    return rows


@table("lies-0.05")
def at_extreme_skew() -> list[Row]:
    return lies_at(0.05)


@table("lies-0.5")
def at_mild_skew() -> list[Row]:
    return lies_at(0.5)
