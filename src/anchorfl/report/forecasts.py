"""What `anchorfl forecast` shows: a table and a figure of where lambda goes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console

from anchorfl.diagnose import forecast, forecast_run, leaves, smallest_gamma
from anchorfl.methods import METHODS
from anchorfl.objective import Point, RoundMeans
from anchorfl.report.charts import IN_LAMBDAS, LAMBDAS, Chart, Series
from anchorfl.report.colours import PALETTE
from anchorfl.report.console import say
from anchorfl.report.figures import plot_chart
from anchorfl.report.numbers import quantity
from anchorfl.report.tables import plain_table
from anchorfl.runs import Run
from anchorfl.settings import build_align, by_section, check_words

ROWS = 10


def show_assumed(
    console: Console,
    method: str,
    words: Mapping[str, object],
    rounds: Sequence[RoundMeans],
    bound: float,
    figure: Path,
) -> None:
    """A forecast on assumed losses, for a method and its align options."""
    entry = METHODS.get(method)
    check_words(method, words)
    options = by_section({**entry.defaults, **words}, method)["align"]
    balance, _ = build_align(entry, options)
    points = forecast(balance, rounds)
    every = max(1, round(len(points) / ROWS))  # ten rounds or so, and the last
    rows = [
        [str(point.round), quantity(rounds[point.round].align), quantity(point.raw), *ends(point)]
        for point in points
        if point.round % every == 0 or point is points[-1]
    ]
    headings = ["round", "A", "raw lambda", "effective", "stationary"]
    console.print(plain_table(headings, rows, f"{method}, B {quantity(rounds[0].base)}"))
    left, limit = leaves(points, bound), quantity(bound)
    where = f"stays below {limit}" if left is None else f"exceeds {limit} in round {left}"
    say(console, f"raw lambda {where}; {gamma_line(smallest_gamma(rounds, bound), bound)}")
    say(console, f"figure: {plot({0: points}, {}, method, figure)}")


def show_run(console: Console, run: Run, bound: float, figure: Path) -> None:
    """A forecast from a run's own losses, beside what was recorded."""
    found, rows = forecast_run(run), []
    for client, points in found.items():
        left, recorded = leaves(points, bound), run.clients[client][-1]["lambda_raw"]
        raw = [quantity(recorded), quantity(points[-1].raw)]
        rows.append([str(client), *raw, *ends(points[-1]), "." if left is None else str(left)])
    headings = ["client", "recorded raw", "forecast raw", "effective", "stationary"]
    headings.append(f"exceeds {quantity(bound)} in round")
    console.print(plain_table(headings, rows, f"{run.method}, round {len(points) - 1}"))
    highest = max(record["base_loss"] for own in run.clients.values() for record in own)
    say(console, gamma_line(highest / (2 * bound), bound))
    recorded = {
        client: [record["lambda_raw"] for record in records] for client, records in run.clients.items()
    }
    title = f"{run.method}: forecast (lines) and recorded (dots)"
    say(console, f"figure: {plot(found, recorded, title, figure)}")


def ends(point: Point) -> list[str]:
    return [quantity(point.effective), quantity(point.stationary)]


def gamma_line(gamma: float, bound: float) -> str:
    with_gamma = f"with align.gamma={gamma:.3g} or more (B / (2 lambda))"
    return f"v12-gamma settles below {quantity(bound)} {with_gamma}"


def plot(
    found: Mapping[int, Sequence[Point]],
    recorded: Mapping[int, Sequence[float]],
    title: str,
    path: Path,
) -> Path:
    """Lines by client; what was recorded as dots."""
    series = []
    for number, (client, points) in enumerate(found.items()):
        colour, rounds = PALETTE[number % len(PALETTE)], range(len(points))
        legend = f"client {client}" if len(found) > 1 else None
        for field, dash in LAMBDAS.items():
            values = [getattr(point, field.removeprefix("lambda_")) for point in points]
            series.append(
                Series(field, rounds, values, colour, legend if not dash else None, dash=dash)
            )
        if client in recorded:
            series.append(Series("recorded", rounds, recorded[client], colour, width=0))
    return plot_chart(Chart(IN_LAMBDAS, series, log=True), title, path)
