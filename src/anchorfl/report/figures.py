"""Pictures for a paper, made without a screen."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import LogFormatter, MaxNLocator
from numpy.typing import NDArray

from anchorfl.errors import UserError
from anchorfl.files import whole
from anchorfl.report.charts import DASHED, Chart, accuracy_chart, client_series, lambda_chart
from anchorfl.report.colours import PALETTE
from anchorfl.report.lambda_tables import write_lambda_tables
from anchorfl.report.numbers import quantity
from anchorfl.runs import Run

FORMATS = (".png", ".pdf", ".svg")
INK = "#222222"
MARGIN = 0.04


def figure_formats(words: str) -> list[str]:
    """`png,svg` as a list."""
    kinds = [word.strip().lower() for word in words.split(",")]
    for kind in kinds:
        if f".{kind}" not in FORMATS:
            known = ", ".join(each.removeprefix(".") for each in FORMATS)
            raise UserError(f"--format {words}: choose from {known}, or several with commas between")
    return list(dict.fromkeys(kinds))


def write_figures(run: Run, folder: Path, formats: Sequence[str] = ("png",)) -> list[Path]:
    """The figures that a run's records can give, in each format, and the lambda tables."""
    summary, charts = run.summary, []
    if run.evaluations:
        charts.append(accuracy_chart(run))
    if run.clients:
        losses = client_series(run, {"base_loss": "", "align_loss": DASHED})
        title = "base loss B (solid), align loss A (dashed)"
        charts.append(Chart(title, losses, log=True, name="losses"))
    if run.largest_lambda is not None:
        charts.append(lambda_chart(run))
    written = []
    for kind in formats:
        if summary.label_table and summary.class_names:
            counts, title = np.array(summary.label_table), "samples by label and client"
            path = folder / f"partition.{kind}"
            written.append(plot_partition(counts, summary.class_names, title, path))
        for chart in charts:
            written.append(plot_chart(chart, run.title, folder / f"{chart.name}.{kind}"))
    if run.largest_lambda is not None:
        written.append(write_lambda_tables(run, folder / "lambda.md"))
    return written


def write_charts(charts: Sequence[Chart], subject: str, folder: Path) -> list[Path]:
    """Every chart as PNG, PDF and SVG; those of one scale in one range."""
    written = []
    for chart in charts:
        alike = [each for other in charts if other.scale == chart.scale for each in other.series]
        low = min(value for each in alike for value in each.low or ())
        high = max(value for each in alike for value in each.high or ())
        for suffix in FORMATS:
            path = folder / f"{chart.name}{suffix}"
            written.append(plot_chart(chart, subject, path, (low, high)))
    return written


def plot_chart(
    chart: Chart, subject: str, path: Path, limits: tuple[float, float] | None = None
) -> Path:
    """A chart under its title and what it is of; on a linear axis, between the limits."""
    figure, axes = new_figure(7.2, 3.8)
    for line in chart.series:
        values = [np.nan if value is None else value for value in line.y]
        style = (0, tuple(map(float, line.dash.split()))) if line.dash else "-"
        marker = "o" if len(values) == 1 or not line.width else None
        axes.plot(
            line.x, values, color=line.colour, linestyle=style, linewidth=line.width,
            marker=marker, markersize=2 + line.width, label=line.legend and plain(line.legend),
        )  # fmt: skip
        if line.low and line.high:
            axes.fill_between(line.x, line.low, line.high, color=line.colour, alpha=0.15, linewidth=0)
    axes.set(xlabel="round", ylabel=chart.scale)
    axes.set_title(plain(f"{chart.title}\n{subject}"), fontsize=10, loc="left")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    if chart.log:
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(Quantities())
        axes.yaxis.set_minor_formatter(Quantities())
    elif limits is not None:
        low, high = limits
        margin = MARGIN * (high - low) or 0.5
        axes.set_ylim(low - margin, high + margin)
    axes.grid(alpha=0.15)
    if any(line.legend for line in chart.series):
        axes.legend(frameon=False, fontsize=8, loc="upper left", bbox_to_anchor=(1, 1))
    return save(figure, path)


class Quantities(LogFormatter):
    """A log axis in the numbers that tables have; which ticks get one is as ever."""

    def __call__(self, x: float, pos: int | None = None) -> str:
        return quantity(x) if super().__call__(x, pos) else ""


def plot_partition(
    counts: NDArray[np.int64], class_names: Sequence[str], title: str, path: Path
) -> Path:
    """A disc for each (label, client) whose area is the number of samples."""
    clients, classes = counts.shape
    width, height = max(4.5, 2 + 0.42 * classes), max(2.5, 1.4 + 0.42 * clients)
    figure, axes = new_figure(min(width, 24), min(height, 24))
    cell = 20 * min(1.0, 24 / width, 24 / height)
    client, label = np.nonzero(counts)
    sizes = counts[client, label] / counts.max()
    axes.scatter(label, client, s=cell**2 * sizes, color=PALETTE[0], alpha=0.8, linewidths=0)
    if counts.size <= 200:
        for k, c in zip(client, label, strict=True):
            axes.annotate(str(counts[k, c]), (c, k), (0, -13), fontsize=5.5, color=INK,
                          textcoords="offset points", ha="center", va="center")  # fmt: skip
    axes.set(xlim=(-0.7, classes - 0.3), ylim=(clients - 0.3, -0.7), xlabel="label")
    axes.set_title(plain(title), fontsize=10, loc="left")
    if classes <= 50:
        long = max(map(len, class_names)) > 3
        axes.set_xticks(range(classes), map(plain, class_names), rotation=45 if long else 0)
    rows = [f"client {k} ({counts[k].sum():,})" for k in range(clients)]
    axes.set_yticks(range(clients), rows, fontsize=8 if clients <= 30 else 4)
    axes.grid(alpha=0.15)
    return save(figure, path)


def new_figure(width: float, height: float) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(width, height), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def save(figure: Figure, path: Path) -> Path:
    if path.suffix.lower() not in FORMATS:
        raise UserError(f"{path}: a figure's name must end in {', '.join(FORMATS)}")
    path.parent.mkdir(parents=True, exist_ok=True)
    with warnings.catch_warnings():  # a class name in a script the font lacks, or very long
        warnings.simplefilter("ignore", UserWarning)
        with whole(path) as place:
            figure.savefig(place)
    return path


def plain(text: str) -> str:
    """A dollar sign is a dollar sign, not the start of a formula."""
    return text.replace("$", r"\$")
