"""Curves by round, as values: a page draws them to be explored, `figures` prints them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean, median

from anchorfl.report.colours import NEUTRAL, PALETTE, fusion_colour
from anchorfl.report.page_tables import site_name
from anchorfl.runs import Run, top

MANY = 12
DASHED, DOTTED = "7 4", "2 3"
BEST_CLIENT = "best single client"
LAMBDAS = {"lambda_raw": "", "lambda_effective": DASHED, "lambda_stationary": DOTTED}
IN_LAMBDAS = "raw lambda (solid), effective lambda (dashed), stationary lambda (dotted)"


@dataclass(frozen=True)
class Series:
    """One curve, and the band about it from `low` to `high`; a width of 0 leaves dots alone.

    `legend` names a button, which hides every series of its `group`: by default that of the name.
    """

    name: str
    x: Sequence[int]
    y: Sequence[float | None]
    colour: str
    legend: str | None = None
    group: str | None = None
    dash: str = ""
    width: float = 1.8
    low: Sequence[float] | None = None
    high: Sequence[float] | None = None


@dataclass(frozen=True)
class Chart:
    """`name` is that of its file, `colour` that of the fusion whose chart it is.

    Charts of one `scale` share their range.
    """

    title: str
    series: Sequence[Series]
    log: bool = False
    name: str = ""
    scale: str = ""
    colour: str | None = None


def run_charts(run: Run) -> list[Chart]:
    """Accuracy, lambda, losses, sigmas, norms, gradient shares and clipping, by round."""
    return [
        accuracy_chart(run),
        lambda_chart(run),
        Chart("base loss B", client_series(run, {"base_loss": ""})),
        Chart("align loss A", client_series(run, {"align_loss": ""}), log=True),
        Chart(
            "sigma squared: local (solid), align (dashed)",
            client_series(run, {"sigma_sq_local": "", "sigma_sq_align": DASHED}),
            log=True,
        ),
        Chart(
            "prototype norms: classes held (solid), others (dashed)",
            client_series(run, {"prototype_norm_seen": "", "prototype_norm_unseen": DASHED}),
        ),
        Chart(
            "encoder's share of the squared gradient",
            client_series(run, {"gradient_share_encoder": ""}),
        ),
        Chart("clip factor", client_series(run, {"clip_factor": ""}), log=True),
    ]


def accuracy_chart(run: Run) -> Chart:
    """A line per fusion, dotted where another has its colour already, and the best single client's."""
    series: list[Series] = []
    for name in run.evaluations[0]["accuracy"] if run.evaluations else ():
        x, y = zip(*accuracy_by_round(run, name).items(), strict=True)
        dash = DOTTED if fusion_colour(name) in [each.colour for each in series] else ""
        series.append(Series(name, x, y, fusion_colour(name), legend=name, dash=dash, width=2.4))
    best = best_client_by_round(run)
    if best:
        x, y = zip(*best.items(), strict=True)
        series.append(Series("best client", x, y, NEUTRAL, legend=BEST_CLIENT, dash=DASHED))
    return Chart("test accuracy, %", series, name="accuracy")


def accuracy_by_round(run: Run, fusion: str) -> dict[int, float]:
    """In percent."""
    points = [point for point in run.evaluations if fusion in point["accuracy"]]
    return {point["round"]: 100 * point["accuracy"][fusion] for point in points}


def best_client_by_round(run: Run) -> dict[int, float]:
    """In percent; nothing where clients have no models of their own."""
    best = {point["round"]: top(point["local_accuracy"]) for point in run.evaluations}
    return {number: 100 * share for number, share in best.items() if share is not None}


def lambda_chart(run: Run) -> Chart:
    return Chart(IN_LAMBDAS, client_series(run, LAMBDAS), log=True, name="lambda")


def client_series(run: Run, dashes: Mapping[str, str]) -> list[Series]:
    """A line per client and field; for many clients their median, smallest and largest instead."""
    if len(run.clients) > MANY:
        return spread_of_clients(run, dashes)
    series = []
    for number, (client, records) in enumerate(run.clients.items()):
        rounds, colour = [record["round"] for record in records], PALETTE[number % len(PALETTE)]
        legend: str | None = site_name(run.summary, client) or f"client {client}"
        for field, dash in dashes.items():
            values = [record.get(field) for record in records]
            if any(value is not None for value in values):
                name = f"{client} {field.rsplit('_', 1)[1]}" if dash else f"{client}"
                group = f"client {client}"
                series.append(Series(name, rounds, values, colour, legend, group, dash))
                legend = None
    return series


def spread_of_clients(run: Run, dashes: Mapping[str, str]) -> list[Series]:
    series = []
    measures: list[tuple[str, Callable[[list[float]], float]]] = [
        ("median", median), ("smallest", min), ("largest", max)
    ]  # fmt: skip
    for field, dash in dashes.items():
        by_round: dict[int, list[float]] = {}
        for record in (record for records in run.clients.values() for record in records):
            known = by_round.setdefault(record["round"], [])
            known += [record[field]] if record.get(field) is not None else []
        if not any(by_round.values()):
            continue
        for colour, (label, measure) in zip(PALETTE, measures, strict=False):
            values = [measure(found) if found else None for found in by_round.values()]
            name = f"{in_words(field)}, {label}"
            width = 2.4 if label == "median" else 1.0
            series.append(Series(name, list(by_round), values, colour, name, dash=dash, width=width))
    return series


def spread_of_runs(
    name: str, by_run: Sequence[Mapping[int, float]], colour: str, dash: str = ""
) -> list[Series]:
    """The mean and the range over runs, in the rounds that all have; nothing where there are none."""
    rounds = sorted(set.intersection(*map(set, by_run)))
    if not rounds:
        return []
    found = [[values[number] for values in by_run] for number in rounds]
    middle, low, high = list(map(mean, found)), list(map(min, found)), list(map(max, found))
    return [Series(name, rounds, middle, colour, legend=name, dash=dash, low=low, high=high)]


def in_words(field: str) -> str:
    """What a number in a client's record is: lambda_raw -> raw lambda, base_loss -> base loss."""
    what, _, kind = field.partition("_")
    return f"{kind} {what}" if what == "lambda" else field.replace("_", " ")
