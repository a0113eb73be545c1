"""The diary's two lambda tables, as Markdown, from the records of a run."""

from __future__ import annotations

from pathlib import Path

from anchorfl.files import write_whole
from anchorfl.report.numbers import NONE, percent
from anchorfl.report.table_files import markdown
from anchorfl.runs import Run

EARLY_ROUNDS = 10


def write_lambda_tables(run: Run, path: Path) -> Path:
    """Raw lambda of every client by round, and the steepest client's beside the accuracy."""
    tables = [f"# {run.title}: lambda by client", "", lambda_by_client(run)]
    if run.evaluations:
        steepest = max(run.clients, key=lambda client: run.largest_lambda_of(client) or 0.0)
        tables += ["", f"# {run.title}: client {steepest} and the accuracy", ""]
        tables.append(lambda_and_accuracy(run, steepest))
    write_whole(path, "\n".join(tables))
    return path


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
    records = {record["round"]: record for record in run.clients[client]}
    fusions = list(run.evaluations[0]["accuracy"])
    rows = []
    for point in run.evaluations:
        record = records[point["round"]]
        names = ("lambda_raw", "lambda_effective", "lambda_stationary")
        raw, effective, stationary = (shown(record[name]) for name in names)
        accuracies = (percent(point["accuracy"][name]) for name in fusions)
        s = f"{record['anneal']:.3f}"
        rows.append([str(point["round"]), raw, s, effective, stationary, *accuracies])
    headings = [f"client {client} raw lambda", "s(p)", "effective lambda", "stationary lambda"]
    return markdown(["round", *headings, *(f"{name} %" for name in fusions)], rows)


def shown(value: float | None) -> str:
    """Four places, as the diary has them; large ones whole."""
    return NONE if value is None else f"{value:.4f}" if value < 1000 else f"{value:,.0f}"
