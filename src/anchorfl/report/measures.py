"""How right a model is, for a person to read."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import torch
from rich.console import Console

from anchorfl.compute import count_flops
from anchorfl.model import FusedModel, Measures
from anchorfl.report.numbers import percent
from anchorfl.report.predictions import UNLIKE
from anchorfl.report.tables import plain_table


def show_measures(console: Console, measures: Measures) -> None:
    rows = [
        ["images", f"{measures.images:,}"],
        ["accuracy", f"{percent(measures.accuracy)} %"],
        ["balanced accuracy", f"{percent(measures.balanced_accuracy)} %"],
        ["macro F1", f"{percent(measures.macro_f1)} %"],
        ["expected calibration error", f"{percent(measures.calibration_error)} %"],
    ]
    if measures.unfamiliar is not None:
        rows.append([UNLIKE, f"{percent(measures.unfamiliar)} %"])
    console.print(plain_table(["measure", "value"], rows, "the model"))
    by_class = [
        [name, "no image" if share is None else percent(share)]
        for name, share in measures.recall.items()
    ]
    console.print(plain_table(["class", "recall, %"], by_class, "by class"))


def show_students(console: Console, found: Mapping[str, tuple[Measures, FusedModel]]) -> None:
    """One network in the place of many: what that saved, and what it lost."""
    rows = []
    for name, (measures, model) in found.items():
        picture = torch.zeros(1, *model.shape, device=next(model.buffers()).device)
        size = sum(value.nbytes for value in model.state_dict().values())
        accuracy = [percent(measures.accuracy), percent(measures.calibration_error)]
        flops = f"{count_flops(partial(model, picture)) / 1e6:,.1f}"
        rows.append([name, *accuracy, str(len(model.encoders)), flops, f"{size / 1e6:.1f}"])
    headings = ["", "test accuracy, %", "calibration error", "networks", "MFLOP per image", "MB"]
    console.print(plain_table(headings, rows, "one model instead of many"))
