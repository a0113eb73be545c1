"""The command that makes a common start."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from anchorfl.cli.plain import stoppable
from anchorfl.errors import UserError
from anchorfl.files import write_whole
from anchorfl.report.console import make_console, say
from anchorfl.report.numbers import megabytes

ON_GPU, ON_CPU = (400_000, 27), (8_000, 5)
"""Pictures and epochs."""


def start(
    file: Annotated[Path, typer.Argument(metavar="OUT.safetensors", show_default=False)],
    pixels: Annotated[int, typer.Option(help="Side of the pictures, 8 to 64.", min=8, max=64)] = 32,
    grey: Annotated[bool, typer.Option("--grey", help="Pictures of one channel.")] = False,
    encoder: Annotated[
        str | None,
        typer.Option(help="As model.name; by default what runs use at this size.", show_default=False),
    ] = None,
    weights: Annotated[
        Path | None,
        typer.Option(help="Safetensors of the encoder's weights to begin with.", show_default=False),
    ] = None,
    pictures: Annotated[
        int | None,
        typer.Option(help="Default: 400,000 on a GPU, 8,000 on a CPU.", min=2, show_default=False),
    ] = None,
    epochs: Annotated[
        int | None,
        typer.Option(
            help="Times each is seen; default: 27, 5 on a CPU, 0 with --weights.",
            min=0,
            show_default=False,
        ),
    ] = None,
    width: Annotated[
        int,
        typer.Option(help="Numbers of the widest description; describe.width takes fewer.", min=1),
    ] = 6000,
    crop: Annotated[
        float | None,
        typer.Option(
            help="Share of a picture that a view keeps at least; default: 0.2 (0.6 up to 8 pixels).",
            min=0.01,
            max=1,
            show_default=False,
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Random seed.", min=0)] = 0,
) -> None:
    """Make a common start: train an encoder on synthetic pictures, which are nobody's data.

    All sites start from it (model.weights=OUT.safetensors), and describe their images by it. Five
    minutes on a large GPU; an interrupted start resumes.

    \b
    Examples:
      anchorfl start start.safetensors
      anchorfl start small.safetensors --pixels 28 --grey
      anchorfl start digits.safetensors --crop 0.6
      anchorfl start net.safetensors --encoder my_net.py:Net --weights pretrained.safetensors
      anchorfl run v4 data.name=cifar10 data.root=DIR model.weights=start.safetensors
      anchorfl run none data.name=cifar10 data.root=DIR model.weights=start.safetensors
    """
    from rich.progress import Progress

    from anchorfl.compute import choose_device
    from anchorfl.settings import SMALL_IMAGE, in_full
    from anchorfl.start import StartOptions, make_start

    if file.suffix != ".safetensors" or file.is_dir():
        raise UserError(f"{file}: name a file that ends in .safetensors")
    usual = ON_GPU if choose_device("auto").type == "cuda" else ON_CPU
    options = StartOptions(
        shape=(1 if grey else 3, pixels, pixels),
        encoder=in_full(encoder or ("small-cnn" if pixels <= SMALL_IMAGE else "resnet18")),
        weights=None if weights is None else str(weights),
        pictures=pictures or usual[0],
        epochs=(usual[1] if weights is None else 0) if epochs is None else epochs,
        width=width,
        crop=crop,
        seed=seed,
    )
    file.parent.mkdir(parents=True, exist_ok=True)
    keep, console = file.with_name(f".{file.name}.unfinished"), make_console()
    size = f"{options.shape[0]} x {pixels} x {pixels}"
    say(console, f"{options.encoder} on {options.pictures:,} synthetic pictures of {size}")
    with stoppable(), Progress(console=console, transient=True) as progress:
        bar = progress.add_task("starting", total=options.epochs * options.pictures)
        made = make_start(options, lambda count: progress.advance(bar, count), keep)
    data = made.to_bytes()
    write_whole(file, data)
    keep.unlink(missing_ok=True)
    say(console, f"start: {file}, {megabytes(len(data))}, hash {made.hash[:12]}")
    say(console, f"description: up to {made.basis.shape[1]:,} numbers (describe.width)")
    say(console, f"use it: anchorfl run v4 model.weights={file}")
