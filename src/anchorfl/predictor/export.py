"""A predictor in a file: safetensors to load again, torch.export and ONNX to run elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from anchorfl.errors import UserError
from anchorfl.files import whole
from anchorfl.predictor.graphs import (
    Answers,
    read_exported_program,
    read_onnx,
    write_exported_program,
    write_onnx,
)
from anchorfl.predictor.module import Predictor
from anchorfl.predictor.stored import load_predictor, write_safetensors
from anchorfl.randomness import generator

Writer = Callable[[Answers, Path], None]
Reader = Callable[[Path], Callable[[Tensor], list[Tensor]] | None]
PROBES = 16
CLOSE = 1e-3
"""Of the largest answer: two runtimes add in another order."""


@torch.no_grad()
def export(predictor: Predictor, path: Path, probabilities: bool = False) -> None:
    """Write it in the form that the file's suffix names, and load it again before it is kept.

    A graph gives scores, or `probabilities` and how unfamiliar a picture is.
    """
    check_target(path, probabilities)
    probe = torch.rand(PROBES, *predictor.shape, generator=generator(0, "probe"))
    if not predictor(probe.to(next(predictor.buffers()).device)).isfinite().all():
        raise UserError("this predictor's scores are not finite; the run that made it diverged")
    path.parent.mkdir(parents=True, exist_ok=True)
    answers = Answers(predictor, probabilities)
    write, read = FORMATS[path.suffix.lower()]
    with whole(path) as place:
        write(answers, place)
        why = why_unlike(answers, read, place, probe)
        if why:
            raise UserError(f"{path}: was not kept, because it cannot be used again: {why}")


def why_unlike(answers: Answers, read: Reader, place: Path, probe: Tensor) -> str | None:
    """What is wrong with a file that was just written, alone and in a batch; None if nothing is."""
    try:
        again = read(place)
        if again is None:
            return None
        for images in (probe[:1], probe):
            for wanted, found in zip(answers.listed(images), again(images), strict=True):
                if (found - wanted).abs().max() > CLOSE * wanted.abs().max():
                    return "its answers differ from the predictor's"
    except UserError as error:
        return str(error).removeprefix(f"{place}: ")
    except Exception as error:  # every runtime has errors of its own
        return f"{type(error).__name__}: {error}".splitlines()[0]
    return None


def check_target(path: Path, probabilities: bool = False) -> None:
    """Refuse a file that could not be written in the end."""
    if path.suffix.lower() not in FORMATS:
        raise UserError(f"{path}: ends in none of {', '.join(FORMATS)}")
    if path.is_dir():
        raise UserError(f"{path}: is a folder")
    if probabilities and path.suffix.lower() == ".safetensors":
        raise UserError(f"{path}: holds scores and temperature; --probabilities is for .pt2 and .onnx")


def write_stored(answers: Answers, path: Path) -> None:
    write_safetensors(answers.predictor, path)


def read_stored(path: Path) -> Callable[[Tensor], list[Tensor]]:
    return Answers(load_predictor(path), False).listed


FORMATS: dict[str, tuple[Writer, Reader]] = {
    ".safetensors": (write_stored, read_stored),
    ".pt2": (write_exported_program, read_exported_program),
    ".onnx": (write_onnx, read_onnx),
}
