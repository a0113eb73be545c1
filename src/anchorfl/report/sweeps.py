"""A sweep on the terminal: a line per run as it ends, then the comparison, or what a search found."""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import count

from rich.console import Console

from anchorfl.errors import UserError
from anchorfl.report.compare import SAME, show_comparison
from anchorfl.report.console import say
from anchorfl.report.tables import plain_table
from anchorfl.runs import Run, percent, read_run
from anchorfl.sweep import Ended, Plan, by_changed_code, run_search, run_sweep

SHOWN = 10


def sweep_and_report(console: Console, plan: Plan) -> None:
    if plan.baseline is not None and plan.search is None:
        methods = [trial.settings.get("method", "v4") for trial in plan.trials()]
        if plan.baseline not in methods:
            raise UserError(f"baseline: {plan.baseline}: no run of this sweep has this method")
    started = time.perf_counter()
    ended = run_and_show(console, plan)
    seconds = time.perf_counter() - started
    fresh = [done for done in ended if not done.skipped]
    if fresh:
        rate = 3600 * len(fresh) / seconds
        say(
            console,
            f"{len(fresh)} runs in {seconds:.0f} s: {rate:,.0f} per hour, {plan.at_once} at once",
        )
    failed = [done for done in ended if done.error is not None]
    good = [done for done in ended if done.error is None]
    if good:
        show_search(console, plan, good) if plan.search else show_tables(console, plan, good)
    if failed:
        names = ", ".join(done.trial.name for done in failed)
        raise UserError(
            f"{len(failed)} of {len(ended)} runs failed: {names}; start again to repeat them"
        )


def run_and_show(console: Console, plan: Plan) -> list[Ended]:
    """Run all of it, with a line as each ends."""
    total = len(plan.trials()) if plan.search is None else plan.search["trials"]
    say(console, f"{total} runs, {plan.at_once} at once -> {plan.folder}")
    for run in by_changed_code(plan.folder):
        away = plan.folder / ".earlier"
        say(console, f"{run.changed_code[0]} has changed: {run.folder.name} goes to {away}, and anew")
    numbers = count(1)

    def on_end(done: Ended) -> None:
        say(console, f"{next(numbers)}/{total} {done.trial.name}: {outcome(done)}")

    return run_search(plan, on_end) if plan.search else run_sweep(plan, on_end)


def outcome(done: Ended) -> str:
    if done.error is not None:
        return f"failed: {done.error}"
    figures = ", ".join(f"{name} {percent(value)} %" for name, value in done.accuracy.items())
    when = "ended earlier" if done.skipped else f"{done.seconds:.0f} s"
    return f"{figures}, {'stopped by the guard, ' if done.stopped else ''}{when}"


def show_tables(console: Console, plan: Plan, ended: Sequence[Ended]) -> None:
    """One table for each data set and draw: accuracies on different data are not averaged."""
    tables: dict[tuple[str, ...], list[Run]] = {}
    for done in ended:
        if done.stopped:
            say(console, f"{done.trial.name} was stopped by the guard: it is in no table")
            continue
        run = read_run(plan.folder / done.trial.name)
        tables.setdefault(tuple(str(run.settings.get(key)) for key in SAME), []).append(run)
    for runs in tables.values():
        known = plan.baseline in {run.method for run in runs}
        show_comparison(console, runs, plan.baseline if known else None)
    if len(tables) == 1:
        baseline = f" --baseline {plan.baseline}" if plan.baseline else ""
        again = f"anchorfl compare {plan.folder}/*{baseline} --page compare.html --table compare.tex"
        say(console, f"as a page and in LaTeX: {again}")


def show_search(console: Console, plan: Plan, ended: Sequence[Ended]) -> None:
    """The best trials by validation accuracy; the test accuracy is shown of the best alone."""
    varied = list((plan.search or {})["vary"])
    fusions = list(ended[0].validation or {})
    rows = []
    for done in ended[:SHOWN]:
        validation = [percent(value) for value in (done.validation or {}).values()]
        rows.append([done.trial.name, *(f"{done.trial.settings[key]}" for key in varied), *validation])
    console.print(plain_table(["trial", *varied, *fusions], rows, "accuracy on held-out data, %"))
    best = ended[0]
    words = " ".join(f"{key}={best.trial.settings[key]}" for key in varied)
    say(console, f"best: {words}; on the test set {outcome(best)}")
