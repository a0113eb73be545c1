"""What `anchorfl forecast` shows: a table and a figure of where lambda goes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console

from anchorfl.diagnose import forecast, forecast_run, geometric, leaves, smallest_gamma
from anchorfl.objective import Point, RoundMeans
from anchorfl.registry import METHODS
from anchorfl.report.console import say
from anchorfl.report.numbers import quantity
from anchorfl.report.png_plots import COLOURS, INK, finish_by_round, new_figure
from anchorfl.report.tables import plain_table
from anchorfl.runs import Run
from anchorfl.settings import build_align, by_section, check_words

ROWS = 11


def assumed_rounds(
    rounds: int, base: float, align: tuple[float, float], clip: float, steps: int
) -> list[RoundMeans]:
    """A constant B, and an A that falls by the same factor in every round."""
    return [RoundMeans(base, each, clip, steps) for each in geometric(*align, rounds)]


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
    rows = [
        [
            str(point.round),
            quantity(rounds[point.round].align),
            quantity(point.raw),
            quantity(point.effective),
            quantity(point.stationary),
        ]
        for point in chosen(points)
    ]
    headings = ["round", "A", "raw lambda", "effective", "stationary"]
    console.print(plain_table(headings, rows, f"{method}, B {quantity(rounds[0].base)}"))
    say(console, where_it_goes(points, rounds, bound))
    say(console, f"figure: {plot({0: points}, {}, method, figure)}")


def show_run(console: Console, run: Run, bound: float, figure: Path) -> None:
    """A forecast from a run's own losses, beside what was recorded."""
    found = forecast_run(run)
    recorded = {
        client: [record["lambda_raw"] for record in run.clients[client]] for client in run.clients
    }
    rows = []
    for client, points in found.items():
        left = leaves(points, bound)
        rows.append(
            [
                str(client),
                quantity(recorded[client][-1]),
                quantity(points[-1].raw),
                quantity(points[-1].effective),
                quantity(points[-1].stationary),
                "." if left is None else str(left),
            ]
        )
    headings = ["client", "recorded raw", "forecast raw", "effective", "stationary"]
    headings.append(f"exceeds {quantity(bound)} in round")
    console.print(plain_table(headings, rows, f"{run.method}, round {len(points) - 1}"))
    highest = max(record["base_loss"] for own in run.clients.values() for record in own)
    say(console, gamma_line(highest / (2 * bound), bound))
    title = f"{run.method}: forecast (lines) and recorded (dots)"
    say(console, f"figure: {plot(found, recorded, title, figure)}")


def chosen(points: Sequence[Point]) -> list[Point]:
    """Ten rounds or so, and the last."""
    every = max(1, round(len(points) / (ROWS - 1)))
    return [point for point in points if point.round % every == 0 or point is points[-1]]


def where_it_goes(points: Sequence[Point], rounds: Sequence[RoundMeans], bound: float) -> str:
    left = leaves(points, bound)
    limit = quantity(bound)
    where = f"stays below {limit}" if left is None else f"exceeds {limit} in round {left}"
    return f"raw lambda {where}; {gamma_line(smallest_gamma(rounds, bound), bound)}"


def gamma_line(gamma: float, bound: float) -> str:
    with_gamma = f"with align.gamma={gamma:.3g} or more (B / (2 lambda))"
    return f"v12-gamma settles below {quantity(bound)} {with_gamma}"


def plot(
    found: Mapping[int, Sequence[Point]],
    recorded: Mapping[int, Sequence[float]],
    title: str,
    path: Path,
) -> Path:
    figure, axes = new_figure(7.2, 3.8)
    styles = {"raw": "-", "effective": "--", "stationary": ":"}
    for index, (client, points) in enumerate(found.items()):
        colour = COLOURS[index % len(COLOURS)]
        for name, style in styles.items():
            values = [getattr(point, name) for point in points]
            label = f"client {client}" if style == "-" and len(found) > 1 else None
            axes.plot(range(len(points)), values, style, color=colour, linewidth=1.4, label=label)
        if client in recorded:
            axes.plot(recorded[client], "o", color=colour, markersize=2)
    for name, style in styles.items():
        axes.plot([], [], style, color=INK, linewidth=1.4, label=name)
    axes.set(ylabel="lambda", yscale="log")
    return finish_by_round(figure, axes, title, path)
