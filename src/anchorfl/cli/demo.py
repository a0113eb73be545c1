"""The main job on the embedded data: what `make demo` runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from statistics import mean

from rich.console import Console

from anchorfl.compute import cores
from anchorfl.config import DEFAULT_FUSION
from anchorfl.errors import UserError
from anchorfl.files import locked
from anchorfl.report.charts import (
    BEST_CLIENT,
    DASHED,
    Chart,
    accuracy_by_round,
    best_client_by_round,
    spread_of_runs,
)
from anchorfl.report.colours import NEUTRAL, PALETTE
from anchorfl.report.console import say
from anchorfl.report.diagnosis import show_diagnosis
from anchorfl.report.figures import plot_chart, write_figures
from anchorfl.report.numbers import quantity
from anchorfl.report.sweeps import run_and_show
from anchorfl.report.tables import plain_table
from anchorfl.runs import Run, new_folder, read_run
from anchorfl.sweep import Plan

FORMS: dict[str, dict[str, object]] = {
    "v4": {"method": "v4"},
    "v7": {"method": "v7"},
    "v9": {"method": "v9"},
    "v10": {"method": "v10"},
    "v12": {"method": "v12"},
    "v12-batch": {"method": "v12", "align.classes": "batch"},
    "v12-gamma": {"method": "v12-gamma"},
}
DIAGNOSED = ("v12", "v12-batch", "v12-gamma")
SHOWN = ("v4", *DIAGNOSED)
SEEDS = (1, 2, 3)
READINGS = tuple(DEFAULT_FUSION.split(","))
"""Three rules on the same clients, the default first, the diary's last."""
DEFAULT, DIARY = READINGS[0], READINGS[-1]
CURVES = "accuracy.png"


def run_demo(console: Console, rounds: int) -> None:
    """Train, then what happened to V12's lambda, figures, and last, to stay in sight, the table."""
    plan = demo_plan(rounds)
    failed = [done for done in run_and_show(console, plan) if done.error is not None]
    if failed:
        raise UserError(f"{len(failed)} of the runs failed, {failed[0].trial.name} first")
    runs = {form: [read_run(plan.folder / f"{form}-seed{seed}") for seed in SEEDS] for form in FORMS}
    for form in SHOWN:
        write_figures(runs[form][0], runs[form][0].files.figures)
    for form in DIAGNOSED:
        say(console, f"{form}, seed {SEEDS[0]}:")
        show_diagnosis(console, runs[form][0])
    show_figures(console, runs, plan.folder)
    show_table(console, runs)
    say(console, f"What happened in any other run: anchorfl diagnose {plan.folder}/*")


def demo_plan(rounds: int) -> Plan:
    """Every form with every seed, one run per core."""
    return Plan(
        folder=unfinished_demo(rounds) or new_folder(Path("runs"), "demo"),
        settings={
            "data.name": "digits",
            "partition.alpha": 0.05,
            "partition.clients": 5,
            "train.rounds": rounds,
            "train.evaluate_every": 5,
            "fusion": DEFAULT_FUSION,
        },
        alternatives=[{"name": form, **settings} for form, settings in FORMS.items()],
        grid={"seed": SEEDS},
        search=None,
        at_once=cores(),
        baseline=None,
    )


def unfinished_demo(rounds: int) -> Path | None:
    """The folder of a demo of as many rounds that was cut off and that nobody is at work in."""
    for folder in sorted(Path("runs").glob("demo*")):
        with suppress(UserError):
            begun = [read_run(file.parent) for file in folder.glob("*/config.yaml")]
            alike = all(run.settings.get("train.rounds") == rounds for run in begun)
            if begun and alike and not (folder / CURVES).exists():
                with locked(folder):
                    return folder
    return None


def final(run: Run, fusion: str) -> float:
    """Final accuracy in percent."""
    return 100 * (run.summary.accuracy(fusion) or 0.0)


def show_table(console: Console, runs: Mapping[str, Sequence[Run]]) -> None:
    """A row per method: the default rule by seed, the means of the others, any client's lambda."""
    headings = ["method", DEFAULT, "by seed", *READINGS[1:], "largest lambda"]
    rows = []
    for form, own in runs.items():
        means = [f"{mean(final(run, reading) for run in own):.1f}" for reading in READINGS]
        by_seed = " ".join(f"{final(run, DEFAULT):.1f}" for run in own)
        largest = [run.largest_lambda for run in own if run.largest_lambda is not None]
        rows.append([form, means[0], by_seed, *means[1:], quantity(max(largest, default=None))])
    alone = [100 * (run.summary.best_client() or 0.0) for run in runs["v4"]]
    by_seed = " ".join(f"{value:.1f}" for value in alone)
    rows.append(["best single site", f"{mean(alone):.1f}", by_seed, "", "", ""])
    matrix = (runs["v4"][0].summary.confusion or {})[DEFAULT]
    tested = sum(sum(row) for row in matrix)
    title = f"test accuracy on digits, {tested} images, %, seeds {', '.join(map(str, SEEDS))}"
    console.print(plain_table(headings, rows, title))
    say(
        console,
        "Each run computes with one thread: the figures are the same on any number of cores. Another"
        " kind of processor changes last digits, and a lambda that runs away by a few percent.",
    )


def show_figures(console: Console, runs: Mapping[str, Sequence[Run]], folder: Path) -> None:
    """The diary's rule, under which methods differ, beside the default."""
    rules = [(form, form, DIARY) for form in runs] + [(f"v4 by {DEFAULT}", "v4", DEFAULT)]
    series = []
    for (name, form, rule), colour in zip(rules, PALETTE, strict=True):
        by_run = [accuracy_by_round(run, rule) for run in runs[form]]
        series += spread_of_runs(name, by_run, colour)
    alone = [best_client_by_round(run) for run in runs["v4"]]
    series += spread_of_runs(BEST_CLIENT, alone, NEUTRAL, DASHED)
    title = f"digits, 5 clients, alpha 0.05: {DIARY}, the diary's rule, by method"
    spread = "mean of three seeds, and from lowest to highest"
    accuracy = Chart(title, series, scale="test accuracy, %")
    figures = {
        "accuracy by round": plot_chart(accuracy, spread, folder / CURVES),
        "who holds what, seed 1": runs["v4"][0].files.figures / "partition.png",
        "V12's lambda, seed 1": runs["v12"][0].files.figures / "lambda.png",
        "the same where A sees the batch's classes": runs["v12-batch"][0].files.figures / "lambda.png",
        "V12-gamma's, seed 1": runs["v12-gamma"][0].files.figures / "lambda.png",
    }
    for what, path in figures.items():
        say(console, f"figure, {what}: {path}")
    say(console, f"pages: {folder}/*/report.html")
