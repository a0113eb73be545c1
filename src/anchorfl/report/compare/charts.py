"""What the curves of a comparison show: every group's mean over its seeds, and from least to most."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from anchorfl.report.charts import DASHED, Chart, Series, accuracy_by_round, spread_of_runs
from anchorfl.report.colours import PALETTE, fusion_colour
from anchorfl.report.compare.groups import Group, all_fusions
from anchorfl.report.compare.table import fusion_words
from anchorfl.report.console import file_word
from anchorfl.runs import Run

QUANTITY = "accuracy, %"


def charts_of(groups: Sequence[Group]) -> list[Chart]:
    """Accuracy by fusion, all in one range, and the largest lambda on a log axis.

    It is raw where a method has it; what the weights see is drawn beside it where it differs.
    """
    charts = []
    for name in all_fusions(groups):
        title, series = (
            f"{fusion_words(name, groups)}: {QUANTITY}",
            curves(groups, partial(accuracy_by_round, fusion=name)),
        )
        place = f"accuracy-{file_word(name)}"
        charts.append(Chart(title, series, name=place, scale=QUANTITY, colour=fusion_colour(name)))
    lambdas = curves(groups, largest_lambdas)
    effective = curves(groups, partial(largest, reading="lambda_effective"))
    charts.append(Chart("largest lambda", lambdas, True, "largest-lambda", "largest lambda"))
    if effective != lambdas:
        title = "largest effective lambda"
        charts.append(Chart(title, effective, True, title.replace(" ", "-"), title))
    return [chart for chart in charts if chart.series]


def curves(groups: Sequence[Group], values: Callable[[Run], dict[int, float]]) -> list[Series]:
    """A colour per group, the same in every chart; once all are used, dashed."""
    series = []
    for number, group in enumerate(groups):
        colour, dash = PALETTE[number % len(PALETTE)], DASHED if number >= len(PALETTE) else ""
        series += spread_of_runs(group.label, [values(run) for run in group.runs], colour, dash)
    return series


def largest_lambdas(run: Run) -> dict[int, float]:
    return {} if run.lambda_reading is None else largest(run, run.lambda_reading)


def largest(run: Run, reading: str) -> dict[int, float]:
    """Of any client, by round."""
    found: dict[int, float] = {}
    for record in (record for records in run.clients.values() for record in records):
        value = record.get(reading)
        if value is not None:
            found[record["round"]] = max(value, found.get(record["round"], value))
    return found
