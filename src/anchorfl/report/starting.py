"""Making a start, with a bar, and what it weighs."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.progress import Progress

from anchorfl.compute import choose_device
from anchorfl.data import Shape
from anchorfl.errors import UserError
from anchorfl.files import write_whole
from anchorfl.report.console import say
from anchorfl.report.numbers import megabytes
from anchorfl.settings import SMALL_IMAGE, in_full
from anchorfl.start import StartOptions, make_start

ON_GPU, ON_CPU = (400_000, 27), (8_000, 5)
"""Pictures and epochs."""


def start_and_report(
    console: Console,
    file: Path,
    shape: Shape,
    encoder: str | None,
    weights: str | None,
    pictures: int | None,
    epochs: int | None,
    width: int,
    crop: float | None,
    seed: int,
) -> None:
    if file.suffix != ".safetensors" or file.is_dir():
        raise UserError(f"{file}: name a file that ends in .safetensors")
    usual = ON_GPU if choose_device("auto").type == "cuda" else ON_CPU
    options = StartOptions(
        shape=shape,
        encoder=in_full(encoder or ("small-cnn" if shape[1] <= SMALL_IMAGE else "resnet18")),
        weights=weights,
        pictures=pictures or usual[0],
        epochs=(usual[1] if weights is None else 0) if epochs is None else epochs,
        width=width,
        crop=crop,
        seed=seed,
    )
    file.parent.mkdir(parents=True, exist_ok=True)
    keep = file.with_name(f".{file.name}.unfinished")
    channels, side = shape[:2]
    size = f"{channels} x {side} x {side}"
    say(console, f"{options.encoder} on {options.pictures:,} synthetic pictures of {size}")
    with Progress(console=console, transient=True) as progress:
        bar = progress.add_task("starting", total=options.epochs * options.pictures)
        start = make_start(options, lambda count: progress.advance(bar, count), keep)
    data = start.to_bytes()
    write_whole(file, data)
    keep.unlink(missing_ok=True)
    say(console, f"start: {file}, {megabytes(len(data))}, hash {start.hash[:12]}")
    say(console, f"description: up to {start.basis.shape[1]:,} numbers (describe.width)")
    say(console, f"use it: anchorfl run v4 model.weights={file}")
