"""Runs beside each other: grouped by what differs, averaged over seeds, never over different data."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from rich.console import Console

from anchorfl.errors import UserError
from anchorfl.files import whole, write_whole
from anchorfl.report.console import say
from anchorfl.report.lambda_tables import markdown
from anchorfl.report.page import fill_page
from anchorfl.report.page_charts import COLOURS, curve
from anchorfl.report.tables import plain_table, spreadsheet_cell
from anchorfl.runs import INCIDENTAL, Run

SAME = ("data.name", "partition.kind", "partition.alpha", "partition.clients")
REPEATED = ("seed", "partition.seed")


@dataclass(frozen=True)
class Group:
    """Runs that differ in their seeds alone."""

    label: str
    method: str
    runs: list[Run]

    def final(self, fusion: str) -> dict[str, float]:
        """Final accuracy in percent by seed."""
        found = {seed_of(run): run.summary.accuracy(fusion) for run in self.runs}
        return {seed: 100 * value for seed, value in found.items() if value is not None}


def seed_of(run: Run) -> str:
    """The seed, and that of the draw where it is another."""
    seed, draw = (str(run.settings.get(key)) for key in REPEATED)
    return seed if draw in (seed, "None") else f"{seed}/{draw}"


def group_runs(runs: Sequence[Run]) -> list[Group]:
    """By method and every setting that differs, seeds and machines aside."""
    for run in runs:
        if run.summary.status != "finished":
            raise UserError(f"{run.folder}: did not finish, so it has no final accuracy to compare")
    own_images = runs[0].settings.get("data.name") == "folder"
    for key in (*SAME, "data.root") if own_images else SAME:
        values = {str(run.settings.get(key)): run.folder for run in runs}
        if len(values) > 1:
            where = ", ".join(f"{value} in {folder.name}" for value, folder in values.items())
            raise UserError(f"these runs cannot be averaged: {key} differs ({where})")
    keys = sorted({key for run in runs for key in run.settings})
    ignored = {"method", *SAME, *REPEATED, *INCIDENTAL}
    differing = [
        key
        for key in keys
        if key not in ignored and len({str(run.settings.get(key)) for run in own_family(runs, key)}) > 1
    ]
    groups: dict[str, list[Run]] = {}
    for run in runs:
        words = [f"{key}={run.settings[key]}" for key in differing if key in run.settings]
        groups.setdefault(" ".join([run.method, *words]), []).append(run)
    return [Group(label, each[0].method, each) for label, each in groups.items()]


def own_family(runs: Sequence[Run], key: str) -> list[Run]:
    """An align key is compared among the runs of methods that have it."""
    return [run for run in runs if key in run.settings or not key.startswith("align.")]


def spread(values: Sequence[float]) -> str:
    if not values:
        return "."
    return f"{mean(values):.2f}" + (f" +- {stdev(values):.2f}" if len(values) > 1 else "")


def comparison(groups: Sequence[Group], baseline: str | None) -> tuple[list[str], list[list[str]]]:
    """Headings and rows: mean +- standard deviation by fusion, differences paired by seed."""
    fusions = all_fusions(groups)
    found = [group for group in groups if group.method == baseline]
    if baseline is not None and len(found) != 1:
        known = ", ".join(group.label for group in found or groups)
        how_many = "several groups have" if found else "no run has"
        raise UserError(f"--baseline {baseline}: {how_many} this method (there are {known})")
    reference = found[0] if found else None
    headings = ["run", "seeds", *fusions]
    if reference:
        headings += [f"{name} - {baseline}" for name in fusions]
    rows = []
    for group in groups:
        cells = [group.label, " ".join(sorted(map(seed_of, group.runs)))]
        cells += [spread(list(group.final(name).values())) for name in fusions]
        if reference:
            cells += [paired(group.final(name), reference.final(name)) for name in fusions]
        rows.append(cells)
    return [*headings, "largest lambda"], [
        [*row, largest_lambda(group)] for row, group in zip(rows, groups, strict=True)
    ]


def all_fusions(groups: Sequence[Group]) -> list[str]:
    runs = [run for group in groups for run in group.runs]
    return list(dict.fromkeys(name for run in runs for name in run.summary.final_accuracy or {}))


def paired(values: dict[str, float], reference: dict[str, float]) -> str:
    both = sorted(values.keys() & reference.keys())
    return spread([values[seed] - reference[seed] for seed in both])


def largest_lambda(group: Group) -> str:
    found = [run.largest_lambda for run in group.runs if run.largest_lambda is not None]
    return f"{max(found):,.4g}" if found else "."


def draws(runs: Sequence[Run]) -> str:
    """Whether who holds what changed with the seed."""
    by_seed: dict[str, set[str]] = {}
    for run in runs:
        known = str(run.summary.partition_hash)
        by_seed.setdefault(str(run.settings["seed"]), set()).add(known)
    every = set().union(*by_seed.values())
    if len(by_seed) == 1:
        return "One seed." if len(every) == 1 else "One seed, several draws."
    return "Every seed has the same draw." if len(every) == 1 else "The draw varies with the seed."


def curves(groups: Sequence[Group]) -> list[dict[str, Any]]:
    """A chart per fusion: every group's mean accuracy by round."""
    charts = []
    for name in all_fusions(groups):
        series = []
        for index, group in enumerate(groups):
            by_round: dict[int, list[float]] = {}
            for run in group.runs:
                for point in run.evaluations:
                    if name in point["accuracy"]:
                        by_round.setdefault(point["round"], []).append(100 * point["accuracy"][name])
            values = [mean(found) for _, found in sorted(by_round.items())]
            colour = COLOURS[index % len(COLOURS)]
            series.append(curve(group.label, sorted(by_round), values, colour, legend=group.label))
        charts.append({"title": f"{name}, mean test accuracy, %", "log": False, "series": series})
    return charts


def show_comparison(
    console: Console,
    runs: Sequence[Run],
    baseline: str | None,
    page: Path | None,
    table: Path | None,
) -> None:
    if table is not None and table.suffix not in (".md", ".csv"):
        raise UserError(f"{table}: a table's name must end in .md or .csv")
    groups = group_runs(runs)
    headings, rows = comparison(groups, baseline)
    settings = runs[0].settings
    draw = f"{settings['partition.kind']}, alpha {settings['partition.alpha']}"
    clients = f"{settings['partition.clients']} clients"
    title = f"{settings['data.name']}, {draw}, {clients}: final test accuracy, %"
    console.print(plain_table(headings, rows, title))
    say(console, draws(runs))
    if page is not None:
        content = {
            "title": "Comparison",
            "subtitle": f"{title}. {draws(runs)}",
            "charts": curves(groups),
        }
        shown = {"headings": headings, "rows": rows}
        say(console, f"page: {fill_page({**content, 'table': shown}, page)}")
    if table is not None:
        write_table(headings, rows, table)
        say(console, f"table: {table}")


def write_table(headings: Sequence[str], rows: Sequence[Sequence[str]], path: Path) -> None:
    """Markdown or CSV, by the file's name."""
    if path.suffix == ".md":
        write_whole(path, markdown(headings, rows))
    else:
        with whole(path) as place, place.open("w", newline="") as file:
            csv.writer(file).writerows(map(spreadsheet_cell, row) for row in (headings, *rows))
