"""Predictions and measures of a model, for a person to read."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from anchorfl.files import whole
from anchorfl.model import Prediction
from anchorfl.report.console import say, spreadsheet_cell
from anchorfl.runs import percent, quantity

HEADINGS = ("class", "probability")
UNSURE = "unsure"
UNLIKE = "unlike all sites' images"


def show_predictions(console: Console, predictions: Sequence[Prediction], least: float = 0.0) -> None:
    """One line per image: its path, its class, how probable; then the next classes.

    Where the first class is less probable than `least`, the answer is that there is none. A picture
    unlike all sites' images is marked: its class means nothing.
    """
    for each in predictions:
        classes = [
            f"{name} {percent(chance)} %"
            for name, chance in zip(each.names, each.probabilities, strict=True)
        ]
        doubt = [UNSURE] if each.probabilities[0] < least else []
        say(console, f"{each.path}: {', '.join([*doubt, *classes, *marks(each)])}")


def marks(prediction: Prediction) -> list[str]:
    far = prediction.unfamiliarity
    return [f"{UNLIKE} ({quantity(far)} times the limit)"] if far is not None and far > 1 else []


def show_bad(console: Console, bad: Sequence[tuple[Path, str]], seen: int) -> None:
    """What could not be read, after everything else is done."""
    say(console, f"{len(bad):,} of {seen + len(bad):,} files could not be read:")
    for path, why in bad:
        say(console, f"{path}: {why}")


def write_predictions(predictions: Sequence[Prediction], path: Path, least: float = 0.0) -> None:
    """A row per image: file, then class and probability in turn; under `least` the first is unsure.

    The last column is the unfamiliarity, empty where it is not known.
    """
    with whole(path) as place, place.open("w", newline="") as file:
        writer = csv.writer(file)
        count = max((len(each.names) for each in predictions), default=1)
        classes = [f"{word}{k + 1}" for k in range(count) for word in HEADINGS]
        writer.writerow(["file", *classes, "unfamiliarity"])
        for each in predictions:
            unsure = each.probabilities[0] < least
            names = [UNSURE, *each.names[1:]] if unsure else each.names
            pairs = zip(names, each.probabilities, strict=True)
            cells = [cell for name, chance in pairs for cell in (name, f"{chance:.6f}")]
            far = "" if each.unfamiliarity is None else f"{each.unfamiliarity:.4f}"
            writer.writerow([spreadsheet_cell(value) for value in (each.path, *cells, far)])
