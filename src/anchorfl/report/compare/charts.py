"""What the curves of a comparison show: every group's mean over its seeds, and from least to most."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import mean

from anchorfl.report.colours import PALETTE, fusion_colour
from anchorfl.report.compare.groups import Group, all_fusions
from anchorfl.report.compare.table import fusion_words
from anchorfl.report.console import file_word
from anchorfl.runs import Run


@dataclass(frozen=True)
class Line:
    """One group by round, over the rounds that all its runs have."""

    label: str
    colour: str
    dashed: bool
    rounds: list[int]
    middle: list[float]
    low: list[float]
    high: list[float]


@dataclass(frozen=True)
class Chart:
    """`name` is that of its file; `limits` are shared by all charts of one quantity.

    `colour` is that of the fusion whose chart it is.
    """

    name: str
    title: str
    quantity: str
    log: bool
    lines: list[Line]
    limits: tuple[float, float]
    colour: str | None = None


def charts_of(groups: Sequence[Group]) -> list[Chart]:
    """Accuracy by fusion, all in one range, and the largest lambda on a log axis.

    It is raw where a method has it; what the weights see is drawn beside it where it differs.
    """
    fusions = {name: lines_of(groups, accuracies(name)) for name in all_fusions(groups)}
    limits = limits_of([line for lines in fusions.values() for line in lines])
    charts = [
        Chart(
            f"accuracy-{file_word(name)}",
            f"{fusion_words(name, groups)}: accuracy, %",
            "accuracy, %",
            False,
            lines,
            limits,
            fusion_colour(name),
        )
        for name, lines in fusions.items()
    ]
    for title, values in (
        ("largest lambda", largest_lambdas),
        ("largest effective lambda", largest_effective_lambdas),
    ):
        lines = lines_of(groups, values)
        charts.append(Chart(title.replace(" ", "-"), title, title, True, lines, limits_of(lines)))
    if charts[-1].lines == charts[-2].lines:
        charts.pop()
    return [chart for chart in charts if chart.lines]


def lines_of(groups: Sequence[Group], values: Callable[[Run], dict[int, float]]) -> list[Line]:
    """A colour per group, the same in every chart; once all are used, dashed."""
    lines = []
    for number, group in enumerate(groups):
        by_run = [values(run) for run in group.runs]
        rounds = sorted(set.intersection(*map(set, by_run)))
        if rounds:
            found = [[own[each] for own in by_run] for each in rounds]
            colour, dashed = PALETTE[number % len(PALETTE)], number >= len(PALETTE)
            middle, low, high = list(map(mean, found)), list(map(min, found)), list(map(max, found))
            lines.append(Line(group.label, colour, dashed, rounds, middle, low, high))
    return lines


def accuracies(fusion: str) -> Callable[[Run], dict[int, float]]:
    """In percent by round."""

    def by_round(run: Run) -> dict[int, float]:
        points = [point for point in run.evaluations if fusion in point["accuracy"]]
        return {point["round"]: 100 * point["accuracy"][fusion] for point in points}

    return by_round


def largest_lambdas(run: Run) -> dict[int, float]:
    return {} if run.lambda_reading is None else largest(run, run.lambda_reading)


def largest_effective_lambdas(run: Run) -> dict[int, float]:
    return largest(run, "lambda_effective")


def largest(run: Run, reading: str) -> dict[int, float]:
    """Of any client, by round."""
    found: dict[int, float] = {}
    for record in (record for own in run.clients.values() for record in own):
        value = record.get(reading)
        if value is not None:
            found[record["round"]] = max(value, found.get(record["round"], value))
    return found


def limits_of(lines: Sequence[Line]) -> tuple[float, float]:
    low = min((value for line in lines for value in line.low), default=0.0)
    return low, max((value for line in lines for value in line.high), default=1.0)
