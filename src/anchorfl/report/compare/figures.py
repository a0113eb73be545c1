"""The charts of a comparison as pictures for a paper."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from anchorfl.report.compare.charts import Chart
from anchorfl.report.png_plots import FORMATS, finish_by_round, new_figure, plain, save

MARGIN = 0.04


def write_figures(charts: Sequence[Chart], setting: str, folder: Path) -> list[Path]:
    """Every chart as PNG, PDF and SVG."""
    return [path for chart in charts for path in plot_chart(chart, setting, folder)]


def plot_chart(chart: Chart, setting: str, folder: Path) -> list[Path]:
    figure, axes = new_figure(7.2, 3.8)
    for line in chart.lines:
        style = "--" if line.dashed else "-"
        marker = "o" if len(line.rounds) == 1 else None
        axes.plot(
            line.rounds, line.middle, style, color=line.colour, marker=marker, linewidth=2,
            label=plain(line.label),
        )  # fmt: skip
        axes.fill_between(line.rounds, line.low, line.high, color=line.colour, alpha=0.15, linewidth=0)
    axes.set(ylabel=chart.quantity)
    if chart.log:
        axes.set_yscale("log")
    else:
        low, high = chart.limits
        margin = MARGIN * (high - low) or 0.5
        axes.set_ylim(low - margin, high + margin)
    paths = [folder / f"{chart.name}{suffix}" for suffix in FORMATS]
    finish_by_round(figure, axes, f"{chart.title}\non {setting}", paths[0])
    return [paths[0], *(save(figure, path) for path in paths[1:])]
