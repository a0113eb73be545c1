"""A run's figures as files for a paper, and the diary's lambda tables as Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from anchorfl.errors import UserError
from anchorfl.files import write_whole
from anchorfl.report.colours import fusion_colour
from anchorfl.report.lambda_tables import lambda_and_accuracy, lambda_by_client, steepest_client
from anchorfl.report.png_plots import (
    FORMATS,
    accuracy_curves,
    evaluated_rounds,
    plot_accuracy,
    plot_clients,
    plot_partition,
)
from anchorfl.runs import Run

LAMBDA = {"lambda_raw": "-", "lambda_effective": "--", "lambda_stationary": ":"}
LOSSES = {"base_loss": "-", "align_loss": "--"}


def figure_formats(words: str) -> list[str]:
    """`png,svg` as a list."""
    kinds = [word.strip().lower() for word in words.split(",")]
    for kind in kinds:
        if f".{kind}" not in FORMATS:
            known = ", ".join(each.removeprefix(".") for each in FORMATS)
            raise UserError(f"--format {words}: choose from {known}, or several with commas between")
    return list(dict.fromkeys(kinds))


def write_figures(run: Run, folder: Path, formats: Sequence[str] = ("png",)) -> list[Path]:
    """The figures that a run's records can give, in each format, and the lambda tables."""
    written = [path for kind in formats for path in write_plots(run, folder, kind)]
    if run.largest_lambda is not None:
        written.append(write_lambda_tables(run, folder / "lambda.md"))
    return written


def write_plots(run: Run, folder: Path, kind: str) -> list[Path]:
    """A run that failed early has fewer."""
    summary, title = run.summary, run.title
    written = []
    if summary.label_table and summary.class_names:
        counts, names = np.array(summary.label_table), summary.class_names
        held = "samples by label and client"
        written.append(plot_partition(counts, names, held, folder / f"partition.{kind}"))
    if run.evaluations:
        rounds, curves = evaluated_rounds(run), accuracy_curves([run])
        path = folder / f"accuracy.{kind}"
        written.append(plot_accuracy(rounds, curves, title, path, fusion_colour))
    if run.clients:
        written.append(plot_clients(run, LOSSES, "loss", title, folder / f"losses.{kind}"))
    if run.largest_lambda is not None:
        written.append(plot_clients(run, LAMBDA, "lambda", title, folder / f"lambda.{kind}"))
    return written


def write_lambda_tables(run: Run, path: Path) -> Path:
    """Raw lambda of every client by round, and the steepest client's beside the accuracy."""
    tables = [f"# {run.title}: lambda by client", "", lambda_by_client(run)]
    if run.evaluations:
        client = steepest_client(run)
        tables += ["", f"# {run.title}: client {client} and the accuracy", ""]
        tables.append(lambda_and_accuracy(run, client))
    write_whole(path, "\n".join(tables))
    return path
