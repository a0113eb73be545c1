"""A run's figures as files for a paper, and the diary's lambda tables as Markdown."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from anchorfl.files import write_whole
from anchorfl.report.lambda_tables import lambda_and_accuracy, lambda_by_client, steepest_client
from anchorfl.report.png_plots import (
    accuracy_curves,
    evaluated_rounds,
    plot_accuracy,
    plot_clients,
    plot_partition,
)
from anchorfl.runs import Run

LAMBDA = {"lambda_raw": "-", "lambda_effective": "--", "lambda_stationary": ":"}
LOSSES = {"base_loss": "-", "align_loss": "--"}


def write_figures(run: Run, folder: Path) -> list[Path]:
    """The figures that a run's records can give; a run that failed early has fewer."""
    summary, title = run.summary, f"{run.method} on {run.settings['data.name']}"
    written = []
    if summary.label_table and summary.class_names:
        counts, names = np.array(summary.label_table), summary.class_names
        held = "samples by label and client"
        written.append(plot_partition(counts, names, held, folder / "partition.png"))
    if run.evaluations:
        rounds, curves = evaluated_rounds(run), accuracy_curves([run])
        written.append(plot_accuracy(rounds, curves, title, folder / "accuracy.png"))
    if run.clients:
        written.append(plot_clients(run, LOSSES, "loss", title, folder / "losses.png"))
    if run.largest_lambda is not None:
        written.append(plot_clients(run, LAMBDA, "lambda", title, folder / "lambda.png"))
        written.append(write_lambda_tables(run, folder / "lambda.md"))
    return written


def write_lambda_tables(run: Run, path: Path) -> Path:
    """Raw lambda of every client by round, and the steepest client's beside the accuracy."""
    tables = [f"# {run.method}: raw lambda by client", "", lambda_by_client(run)]
    if run.evaluations:
        client = steepest_client(run)
        tables += ["", f"# {run.method}: client {client} and the accuracy", ""]
        tables.append(lambda_and_accuracy(run, client))
    write_whole(path, "\n".join(tables))
    return path
