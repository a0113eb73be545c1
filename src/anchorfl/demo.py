"""The main job on the embedded data: what `make demo` runs."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from anchorfl.config import resolve
from anchorfl.experiment import Result, run_config
from anchorfl.report.console import say
from anchorfl.report.plots import (
    accuracy_curves,
    draw_accuracy_figure,
    draw_run_figures,
)
from anchorfl.report.progress import show_progress
from anchorfl.report.tables import best_client, plain_table
from anchorfl.runfolder import new_folder

SEEDS = (1, 2, 3)
FUSIONS = "feature-mean,softmax-mean,iffi,parameter-mean"


def run_demo(console: Console, rounds: int) -> None:
    folder = new_folder(Path("runs"), "demo")
    results = []
    for seed in SEEDS:
        settings = {
            "data.name": "digits",
            "partition.alpha": 0.05,
            "partition.clients": 5,
            "train.rounds": rounds,
            "fusion": FUSIONS,
            "seed": seed,
            "out": str(folder / f"v4-seed{seed}"),
        }
        result = run_config(resolve("v4", settings), (show_progress(console),))
        draw_run_figures(result)
        results.append(result)
    show_table(console, results)
    title = "V4 on digits, 5 clients, alpha 0.05, mean of three seeds"
    curves = draw_accuracy_figure(accuracy_curves(results), title, folder / "accuracy.png")
    partition = results[0].folder / "figures" / "partition.png"
    for what, path in (("accuracy by round", curves), ("who holds what, seed 1", partition)):
        say(console, f"picture, {what}: {path}")


def show_table(console: Console, results: list[Result]) -> None:
    """A row a seed, and their mean; the gain is the primary fusion over the best single client."""
    names = list(results[0].accuracy)
    rows = []
    for result in results:
        alone = best_client(result.summary["local_accuracy"])
        values = list(result.accuracy.values())
        rows.append([alone, *values, values[0] - alone])
    means = [sum(column) / len(rows) for column in zip(*rows, strict=True)]
    shown = [
        [label, *(f"{100 * value:.1f}" for value in row[:-1]), f"{100 * row[-1]:+.1f}"]
        for label, row in zip([*map(str, SEEDS), "mean"], [*rows, means], strict=True)
    ]
    headings = ["seed", "best client", *names, f"{names[0]} gain"]
    console.print(plain_table(headings, shown, "test accuracy, %"))
