"""The diary's two lambda tables, as Markdown, from the records of a run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

Records = Sequence[dict[str, Any]]
EARLY_ROUNDS = 10


def markdown(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [list(headings), ["---"] * len(headings), *map(list, rows)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines) + "\n"


def shown(value: float | None) -> str:
    if value is None:
        return "."
    return f"{value:.4f}" if value < 1000 else f"{value:,.0f}"


def client_records(records: Records) -> dict[int, dict[int, dict[str, Any]]]:
    """Client events by client and round."""
    table: dict[int, dict[int, dict[str, Any]]] = {}
    for record in records:
        if record["event"] == "client":
            table.setdefault(record["client"], {})[record["round"]] = record
    return table


def evaluated(records: Records) -> list[dict[str, Any]]:
    return [record for record in records if record["event"] == "round" and record["accuracy"]]


def steepest_client(records: Records) -> int:
    """The client whose raw lambda is largest at any time."""
    clients = client_records(records)
    return max(clients, key=lambda client: max(r["lambda_raw"] or 0 for r in clients[client].values()))


def lambda_by_client(records: Records) -> str:
    """Seed 001's form: raw lambda of every client, the early rounds, then every tenth, and the last."""
    clients = client_records(records)
    rounds = sorted(next(iter(clients.values())))
    chosen = [r for r in rounds if r <= EARLY_ROUNDS or r % 10 == 0 or r == rounds[-1]]
    rows = [
        [str(r), *(shown(own[r]["lambda_raw"]) for _, own in sorted(clients.items()))] for r in chosen
    ]
    return markdown(["round", *(f"client {client}" for client in sorted(clients))], rows)


def lambda_and_accuracy(records: Records, client: int) -> str:
    """Seed 002's form: one client's lambda beside the accuracy, at every evaluation."""
    own = client_records(records)[client]
    points = evaluated(records)
    fusions = list(points[0]["accuracy"])
    rows = [
        [
            str(point["round"]),
            shown(own[point["round"]]["lambda_raw"]),
            f"{own[point['round']]['anneal']:.3f}",
            shown(own[point["round"]]["lambda_effective"]),
            shown(own[point["round"]]["lambda_stationary"]),
            *(f"{100 * point['accuracy'][name]:.1f}" for name in fusions),
        ]
        for point in points
    ]
    headings = [f"client {client} raw lambda", "s(p)", "effective lambda", "stationary lambda"]
    return markdown(["round", *headings, *(f"{name} %" for name in fusions)], rows)
