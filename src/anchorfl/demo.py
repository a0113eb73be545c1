"""The main job on the embedded data: what `make demo` runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean

import numpy as np
from rich.console import Console

from anchorfl.config import resolve
from anchorfl.experiment import Result, run_config
from anchorfl.records import read_run
from anchorfl.report.console import say
from anchorfl.report.diagnosis import show_diagnosis
from anchorfl.report.figures import write_figures
from anchorfl.report.plots import (
    BEST_CLIENT,
    accuracy_curves,
    draw_accuracy_figure,
    evaluated_rounds,
)
from anchorfl.report.progress import show_progress
from anchorfl.report.tables import best_client, plain_table
from anchorfl.runfolder import new_folder

METHODS = ("v4", "v7", "v9", "v10", "v12", "v12-gamma")
SEEDS = (1, 2, 3)
READINGS = ("feature-mean", "class-mean")


def run_demo(console: Console, rounds: int) -> None:
    folder = new_folder(Path("runs"), "demo")
    results: dict[str, list[Result]] = {method: [] for method in METHODS}
    for seed in SEEDS:
        for method in METHODS:
            settings = {
                "data.name": "digits",
                "partition.alpha": 0.05,
                "partition.clients": 5,
                "train.rounds": rounds,
                "train.evaluate_every": 5,
                "fusion": ",".join(READINGS),
                "seed": seed,
                "out": str(folder / f"{method}-seed{seed}"),
            }
            result = run_config(resolve(method, settings), (show_progress(console),))
            write_figures(read_run(result.folder), result.folder / "figures")
            results[method].append(result)
    show_table(console, results)
    for method in ("v12", "v12-gamma"):
        for result in results[method]:
            say(console, f"{method}, seed {result.config.seed}:")
            show_diagnosis(console, read_run(result.folder))
    title = f"{READINGS[0]} on digits, 5 clients, alpha 0.05, mean of three seeds"
    read = {method: [read_run(each.folder) for each in runs] for method, runs in results.items()}
    curves = {method: accuracy_curves(runs)[READINGS[0]] for method, runs in read.items()}
    curves[BEST_CLIENT] = accuracy_curves(read["v4"])[BEST_CLIENT]
    rounds_shown = evaluated_rounds(read["v4"][0])
    pictures = {
        "accuracy by round": draw_accuracy_figure(rounds_shown, curves, title, folder / "accuracy.png"),
        "who holds what, seed 1": results["v4"][0].folder / "figures" / "partition.png",
        "V12's lambda, seed 1": results["v12"][0].folder / "figures" / "lambda.png",
        "V12-gamma's, seed 1": results["v12-gamma"][0].folder / "figures" / "lambda.png",
    }
    for what, path in pictures.items():
        say(console, f"picture, {what}: {path}")
    say(console, f"pages: {folder}/*/report.html")


def show_table(console: Console, results: Mapping[str, Sequence[Result]]) -> None:
    """A row a method: both readings by seed and their means, and the largest lambda of any client."""
    rows = []
    for method, runs in results.items():
        cells = [method]
        for reading in READINGS:
            values = [run.accuracy[reading] for run in runs]
            cells.append(f"{100 * mean(values):.1f}")
            cells.append(" ".join(f"{100 * value:.1f}" for value in values))
        largest = [run.largest_lambda for run in runs if run.largest_lambda is not None]
        rows.append([*cells, f"{max(largest):,.1f}" if largest else "."])
    headings = ["method"]
    for reading in READINGS:
        headings += [reading, "by seed"]
    title = f"test accuracy on digits, %, seeds {', '.join(map(str, SEEDS))}"
    console.print(plain_table([*headings, "largest lambda"], rows, title))
    gains = [
        run.accuracy[READINGS[0]] - best_client(run.summary["local_accuracy"]) for run in results["v4"]
    ]
    say(console, f"v4's {READINGS[0]} over the best single client: {100 * np.mean(gains):+.1f} points")
