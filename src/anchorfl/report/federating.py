"""Tasks, uploads and fused sites, told to the people at both ends of a federation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console

from anchorfl.messages import Part, Task, Upload, by_kind
from anchorfl.prepare import Setup
from anchorfl.report.console import say
from anchorfl.report.numbers import counted
from anchorfl.report.tables import plain_table
from anchorfl.statistics import exchanges

SHOWN = 12
"""Digits of a hash."""


def show_task(console: Console, task: Task, setup: Setup) -> None:
    config, (channels, height, width) = setup.config, task.facts.shape
    train = config.train
    rounds = f"{counted(train.rounds, 'round')} of {counted(train.local_epochs, 'epoch')}"
    start = "from the seed" if task.start is None else f"a start, hash {task.start.hash[:SHOWN]}"
    rows = [
        ["hash", task.hash[:SHOWN]],
        ["method", config.method],
        ["fusion", ", ".join(config.fusion)],
        ["classes", ", ".join(task.class_names)],
        ["images", f"{channels} x {height} x {width}"],
        ["encoder", ", ".join(setup.encoders)],
        ["starts", start],
        ["training", f"{rounds}, batches of {train.batch}"],
        ["exchanges", str(exchanges(task.needs))],
        ["statistics", ", ".join(task.needs) or "none"],
    ]
    console.print(plain_table(["", ""], rows, "task"))


def show_images(
    console: Console,
    title: str,
    class_names: Sequence[str],
    counts: Sequence[int],
    held_out: Sequence[int],
    bad: Sequence[tuple[Path, str]],
) -> None:
    """What a site holds, by class, and what it cannot read."""
    rows = [[name, str(a), str(b)] for name, a, b in zip(class_names, counts, held_out, strict=True)]
    console.print(plain_table(["class", "to train on", "held out"], rows, title))
    for path, why in bad:
        say(console, f"bad: {path}: {why}")
    if bad:
        say(
            console,
            f"cannot be read: {counted(len(bad), 'file')}; site train --skip-bad leaves them out",
        )


def show_parts(
    console: Console, parts: Sequence[Part], upload: Upload, title: str, class_names: Sequence[str]
) -> None:
    """What is in an upload, and what somebody could learn from it."""
    kinds = list(by_kind(list(parts)))
    rows = [[part.name, part.shape, f"{part.bytes:,}", part.is_what] for part in kinds]
    size = sum(part.bytes for part in parts)
    headings = ["part", "shape", "bytes", "what it is"]
    console.print(plain_table(headings, rows, f"{title}: {size:,} bytes"))
    for part in kinds:
        say(console, f"{part.name} ({part.of_whom}) could reveal: {part.reveals}")
    say_span(console, upload)
    counts = upload.class_counts.flatten().tolist()
    held = [f"{name}: {count:,}" for name, count in zip(class_names, counts, strict=True) if count]
    others = "" if all(counts) else "; 0 of the others"
    say(console, f"class counts that leave: {', '.join(held)}{others}")


def say_span(console: Console, upload: Upload) -> None:
    """That there are fewer images here than numbers in a description, where it is so."""
    rows = upload.statistics.get("sketch_moments/cross", upload.statistics.get("sketch_moments/norms"))
    numbers = len(rows) if rows is not None and rows.dim() else 0
    if upload.samples < numbers:
        images = counted(upload.samples, "image")
        span = f"{images}, {numbers:,} numbers: their span is these images'"
        say(console, f"statistics/sketch_moments here: {span}")


def show_fused(console: Console, uploads: Mapping[str, Upload], sizes: Sequence[int | None]) -> None:
    rows = [
        [
            name,
            f"{upload.samples:,}",
            str(int((upload.class_counts > 0).sum())),
            upload.network or "-",
            f"{(size or 0) / 1e6:,.1f}",
        ]
        for (name, upload), size in zip(uploads.items(), sizes, strict=True)
    ]
    console.print(plain_table(["site", "images", "classes", "encoder", "MB"], rows, "fused"))
