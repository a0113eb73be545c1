"""Distilling a run, with a bar, and what it saved and lost."""

from __future__ import annotations

from pathlib import Path

import torch
from rich.console import Console
from rich.progress import Progress

from anchorfl.compute import choose_device
from anchorfl.engine import data_of
from anchorfl.predictor import (
    Measures,
    Predictor,
    check_target,
    distill,
    export,
    find_source,
    measure,
    predictor_of,
)
from anchorfl.report.console import say
from anchorfl.report.numbers import percent
from anchorfl.report.tables import plain_table
from anchorfl.runs import read_run
from anchorfl.server import count_flops


def distill_and_report(
    console: Console,
    folder: Path,
    images: Path | None,
    steps: int,
    out: Path,
    root: str | None,
    trust: bool,
) -> None:
    check_target(out)
    run = read_run(folder, trust)
    teacher, dataset = predictor_of(run), data_of(run, root)
    source = find_source(run, teacher.shape, dataset, images)
    say(console, f"{steps:,} steps on {source.name}")
    keep = out.with_name(f".{out.name}.unfinished")
    with Progress(console=console, transient=True) as progress:
        bar = progress.add_task("distilling", total=steps)
        student = distill(
            teacher,
            run.config,
            source,
            steps,
            lambda step: progress.update(bar, completed=step + 1),
            keep,
        )
    export(student, out)
    keep.unlink(missing_ok=True)
    device, rows = choose_device("auto"), []
    for name, predictor in (("fused", teacher), ("student", student)):
        found = measure(predictor.to(device), dataset.test)
        rows.append([name, *cells(found, predictor)])
    headings = ["", "test accuracy, %", "calibration error", "networks", "MFLOP per image", "MB"]
    console.print(plain_table(headings, rows, "one model instead of many"))
    say(console, f"student: {out}")


def cells(found: Measures, predictor: Predictor) -> list[str]:
    size = sum(value.nbytes for value in predictor.state_dict().values())
    device = next(predictor.buffers()).device
    flops = count_flops(lambda: predictor(torch.zeros(1, *predictor.shape, device=device)))
    return [
        percent(found.accuracy),
        percent(found.calibration_error),
        str(len(predictor.encoders)),
        f"{flops / 1e6:,.1f}",
        f"{size / 1e6:.1f}",
    ]
