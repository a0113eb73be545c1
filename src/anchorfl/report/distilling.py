"""Distilling a run, with a bar, and what it saved and lost."""

from __future__ import annotations

from pathlib import Path

import torch
from rich.console import Console
from rich.progress import Progress

from anchorfl.answers import Measures, measure
from anchorfl.costs import count_flops
from anchorfl.data.dataset import load_dataset
from anchorfl.devices import choose_device
from anchorfl.distillation import distill, find_source
from anchorfl.experiment import load_run
from anchorfl.export import check_target, export
from anchorfl.predictor import Predictor
from anchorfl.report.console import say
from anchorfl.report.tables import plain_table


def distill_and_report(console: Console, run: Path, images: Path | None, steps: int, out: Path) -> None:
    check_target(out)
    result = load_run(run)
    source = find_source(result, images)
    say(console, f"{steps:,} steps on {source.name}")
    with Progress(console=console, transient=True) as progress:
        bar = progress.add_task("distilling", total=steps)
        student = distill(result, source, steps, lambda step: progress.update(bar, completed=step + 1))
    export(student, out)
    device, test = choose_device("auto"), load_dataset(result.config.data).test
    rows = []
    for name, predictor in (("fused", result.predictor), ("student", student)):
        found = measure(predictor.to(device), test)
        rows.append([name, *told(found, predictor)])
    headings = ["", "test accuracy, %", "calibration error", "networks", "MFLOP a prediction", "MB"]
    console.print(plain_table(headings, rows, "one model instead of many"))
    say(console, f"student: {out}")


def told(found: Measures, predictor: Predictor) -> list[str]:
    size = sum(value.nbytes for value in predictor.state_dict().values())
    device = next(predictor.buffers()).device
    flops = count_flops(lambda: predictor(torch.zeros(1, *predictor.shape, device=device)))
    return [
        f"{100 * found.accuracy:.2f}",
        f"{100 * found.calibration_error:.1f}",
        str(len(predictor.encoders)),
        f"{flops / 1e6:,.1f}",
        f"{size / 1e6:.1f}",
    ]
