"""Predictions and measures of a predictor, for a person to read."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from anchorfl.files import whole
from anchorfl.predictor import Measures, Prediction
from anchorfl.report.console import say
from anchorfl.report.tables import plain_table, spreadsheet_cell

HEADINGS = ("class", "probability")


def show_predictions(console: Console, predictions: Sequence[Prediction]) -> None:
    """One line per image: its path, its class, how probable; then the next classes."""
    for each in predictions:
        classes = [
            f"{name} {100 * chance:.1f} %"
            for name, chance in zip(each.names, each.probabilities, strict=True)
        ]
        say(console, f"{each.path}: {', '.join(classes)}")


def write_predictions(predictions: Sequence[Prediction], path: Path) -> None:
    """A row per image: file, then class and probability in turn."""
    with whole(path) as place, place.open("w", newline="") as file:
        writer = csv.writer(file)
        count = len(predictions[0].names)
        writer.writerow(["file", *(f"{word}{k + 1}" for k in range(count) for word in HEADINGS)])
        for each in predictions:
            pairs = zip(each.names, each.probabilities, strict=True)
            cells = [cell for name, chance in pairs for cell in (name, f"{chance:.6f}")]
            writer.writerow([spreadsheet_cell(value) for value in (each.path, *cells)])


def show_measures(console: Console, measures: Measures) -> None:
    rows = [
        ["images", f"{measures.images:,}"],
        ["accuracy", f"{100 * measures.accuracy:.2f} %"],
        ["balanced accuracy", f"{100 * measures.balanced_accuracy:.2f} %"],
        ["macro F1", f"{100 * measures.macro_f1:.2f} %"],
        ["expected calibration error", f"{100 * measures.calibration_error:.2f} points"],
    ]
    console.print(plain_table(["measure", "value"], rows, "the predictor"))
    by_class = [
        [name, "no image" if share is None else f"{100 * share:.1f}"]
        for name, share in measures.recall.items()
    ]
    console.print(plain_table(["class", "recall, %"], by_class, "by class"))
