"""A run's pictures as files for a paper, and the diary's lambda tables as Markdown."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from anchorfl.records import Run
from anchorfl.report.lambda_tables import lambda_and_accuracy, lambda_by_client, steepest_client
from anchorfl.report.plots import (
    accuracy_curves,
    draw_accuracy_figure,
    draw_client_figure,
    draw_partition_figure,
    evaluated_rounds,
)

LAMBDA = {"lambda_raw": "-", "lambda_effective": "--", "lambda_stationary": ":"}
LOSSES = {"base_loss": "-", "align_loss": "--"}


def write_figures(run: Run, folder: Path) -> list[Path]:
    """The pictures that a run's records can give; a run that failed early has fewer."""
    summary, title = run.summary or {}, f"{run.method} on {run.settings['data.name']}"
    written = []
    if "label_table" in summary:
        counts, names = np.array(summary["label_table"]), summary["class_names"]
        held = "samples by label and client"
        written.append(draw_partition_figure(counts, names, held, folder / "partition.png"))
    if run.evaluations:
        rounds, curves = evaluated_rounds(run), accuracy_curves([run])
        written.append(draw_accuracy_figure(rounds, curves, title, folder / "accuracy.png"))
    if run.clients:
        written.append(draw_client_figure(run, LOSSES, "loss", title, folder / "losses.png"))
    if run.largest_lambda is not None:
        written.append(draw_client_figure(run, LAMBDA, "lambda", title, folder / "lambda.png"))
        written.append(write_lambda_tables(run, folder / "lambda.md"))
    return written


def write_lambda_tables(run: Run, path: Path) -> Path:
    """Raw lambda of every client by round, and the steepest client's beside the accuracy."""
    tables = [f"# {run.method}: raw lambda by client", "", lambda_by_client(run)]
    if run.evaluations:
        client = steepest_client(run)
        tables += ["", f"# {run.method}: client {client} and the accuracy", ""]
        tables.append(lambda_and_accuracy(run, client))
    path.write_text("\n".join(tables))
    return path
