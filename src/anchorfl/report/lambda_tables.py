"""The diary's two lambda tables, as Markdown, from the records of a run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from anchorfl.report.numbers import NONE, percent
from anchorfl.runs import Run

EARLY_ROUNDS = 10


def markdown(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [list(headings), ["---"] * len(headings), *map(list, rows)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines) + "\n"


def shown(value: float | None) -> str:
    """Four places, as the diary has them; large ones whole."""
    return NONE if value is None else f"{value:.4f}" if value < 1000 else f"{value:,.0f}"


def steepest_client(run: Run) -> int:
    """The client whose lambda is largest at any time."""
    reading = run.lambda_reading or "lambda_raw"

    def top(client: int) -> float:
        return max(record[reading] or 0.0 for record in run.clients[client])

    return max(run.clients, key=top)


def lambda_by_client(run: Run) -> str:
    """Diary 001's form: lambda of every client in the early rounds, every tenth, and the last."""
    reading = run.lambda_reading or "lambda_raw"
    by_round = {
        client: {record["round"]: record[reading] for record in records}
        for client, records in run.clients.items()
    }
    rounds = sorted(next(iter(by_round.values())))
    chosen = [r for r in rounds if r <= EARLY_ROUNDS or r % 10 == 0 or r == rounds[-1]]
    rows = [[str(r), *(shown(own.get(r)) for own in by_round.values())] for r in chosen]
    return markdown(["round", *(f"client {client}" for client in by_round)], rows)


def lambda_and_accuracy(run: Run, client: int) -> str:
    """Diary 002's form: one client's lambda beside the accuracy, at every evaluation."""
    own = {record["round"]: record for record in run.clients[client]}
    fusions = list(run.evaluations[0]["accuracy"])
    rows = []
    for point in run.evaluations:
        record = own[point["round"]]
        names = ("lambda_raw", "lambda_effective", "lambda_stationary")
        raw, effective, stationary = (shown(record[name]) for name in names)
        accuracies = [percent(point["accuracy"][name]) for name in fusions]
        s = f"{record['anneal']:.3f}"
        rows.append([str(point["round"]), raw, s, effective, stationary, *accuracies])
    headings = [f"client {client} raw lambda", "s(p)", "effective lambda", "stationary lambda"]
    return markdown(["round", *headings, *(f"{name} %" for name in fusions)], rows)
