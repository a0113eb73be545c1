"""The command that makes a common start."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from anchorfl.cli.run import stoppable


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
    minutes on a large GPU; what was stopped goes on.

    \b
    Examples:
      anchorfl start start.safetensors
      anchorfl start small.safetensors --pixels 28 --grey
      anchorfl start digits.safetensors --crop 0.6
      anchorfl start net.safetensors --encoder my_net.py:Net --weights pretrained.safetensors
      anchorfl run v4 data.name=cifar10 data.root=DIR model.weights=start.safetensors
      anchorfl run none data.name=cifar10 data.root=DIR model.weights=start.safetensors
    """
    from anchorfl.report.console import make_console
    from anchorfl.report.starting import start_and_report

    shape = (1 if grey else 3, pixels, pixels)
    given = None if weights is None else str(weights)
    with stoppable():
        start_and_report(
            make_console(), file, shape, encoder, given, pictures, epochs, width, crop, seed
        )
