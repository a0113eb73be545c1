"""Pictures, made without a screen."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import LogFormatter, MaxNLocator
from numpy.typing import NDArray

from anchorfl.errors import UserError
from anchorfl.files import whole
from anchorfl.report.colours import NEUTRAL, PALETTE
from anchorfl.report.numbers import in_words, quantity
from anchorfl.report.tables import best_client

if TYPE_CHECKING:
    from anchorfl.runs import Run

BEST_CLIENT = "best single client"
FORMATS = (".png", ".pdf", ".svg")
INK = "#222222"
COLOURS = PALETTE
"""Of clients and methods, by their place."""


def new_figure(width: float, height: float) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(width, height), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


class Quantities(LogFormatter):
    """A log axis in the numbers that tables have; which ticks get one is as ever."""

    def __call__(self, x: float, pos: int | None = None) -> str:
        return quantity(x) if super().__call__(x, pos) else ""


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
    axes.scatter(label, client, s=cell**2 * sizes, color=COLOURS[0], alpha=0.8, linewidths=0)
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


def plot_accuracy(
    rounds: Sequence[int],
    curves: Mapping[str, NDArray[np.float64]],
    title: str,
    path: Path,
    colour_of: Callable[[str], str] | None = None,
) -> Path:
    """Test accuracy by round: one curve per name, runs x rounds; seeds stand faintly behind.

    Colours go by place where `colour_of` does not fix them; the second curve of a colour is dotted.
    """
    figure, axes = new_figure(7.2, 3.8)
    taken: set[str] = set()
    for number, (name, values) in enumerate(curves.items()):
        lonely = name == BEST_CLIENT
        colour = colour_of(name) if colour_of else COLOURS[number % len(COLOURS)]
        line = "--" if lonely else ":" if colour in taken else "-"
        taken.add(colour)
        style: dict[str, Any] = {"color": NEUTRAL if lonely else colour, "linestyle": line}
        marker = "o" if values.shape[1] == 1 else None
        axes.plot(rounds, 100 * values.mean(axis=0), label=name, linewidth=2, marker=marker, **style)
        if len(values) > 1:
            axes.plot(rounds, 100 * values.T, linewidth=0.6, alpha=0.4, **style)
    if any(len(values) > 1 for values in curves.values()):
        axes.plot([], [], color=INK, linewidth=0.6, alpha=0.4, label="thin: one seed each")
    axes.set(ylabel="test accuracy, %")
    return finish_by_round(figure, axes, title, path)


def accuracy_curves(runs: Sequence[Run]) -> dict[str, NDArray[np.float64]]:
    """Every fusion's accuracy by round, and the best single client's, for runs of equal length."""
    names = runs[0].evaluations[0]["accuracy"]
    curves = {
        name: np.array([[record["accuracy"][name] for record in run.evaluations] for run in runs])
        for name in names
    }
    alone = [[best_client(record["local_accuracy"]) for record in run.evaluations] for run in runs]
    lonely = {BEST_CLIENT: np.array(alone)} if None not in alone[0] else {}
    return {**curves, **lonely}


def evaluated_rounds(run: Run) -> list[int]:
    return [record["round"] for record in run.evaluations]


def plot_clients(run: Run, styles: Mapping[str, str], ylabel: str, title: str, path: Path) -> Path:
    """Client records by round on a log axis: a colour per client, a line style per field."""
    figure, axes = new_figure(7.2, 3.8)
    for number, (client, records) in enumerate(run.clients.items()):
        rounds = [record["round"] for record in records]
        colour = COLOURS[number % len(COLOURS)]
        for index, (name, style) in enumerate(styles.items()):
            values = [np.nan if record.get(name) is None else record[name] for record in records]
            label = f"client {client}" if index == 0 and len(run.clients) <= 12 else None
            axes.plot(rounds, values, style, color=colour, linewidth=1.4, label=label)
    for name, style in styles.items():
        axes.plot([], [], style, color=INK, linewidth=1.4, label=in_words(name))
    axes.set(ylabel=ylabel, yscale="log")
    return finish_by_round(figure, axes, title, path)


def finish_by_round(figure: Figure, axes: Axes, title: str, path: Path) -> Path:
    """What every figure over rounds shares."""
    axes.set(xlabel="round")
    axes.set_title(plain(title), fontsize=10, loc="left")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    if axes.get_yscale() == "log":
        axes.yaxis.set_major_formatter(Quantities())
        axes.yaxis.set_minor_formatter(Quantities())
    axes.grid(alpha=0.15)
    axes.legend(frameon=False, fontsize=8, loc="upper left", bbox_to_anchor=(1, 1))
    return save(figure, path)
