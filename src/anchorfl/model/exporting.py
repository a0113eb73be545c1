"""A model in other forms: safetensors, and torch.export and ONNX, which run without this package."""

from __future__ import annotations

import json
import logging
import warnings
from collections.abc import Callable
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from anchorfl.errors import UserError
from anchorfl.files import whole
from anchorfl.model.fused import FusedModel
from anchorfl.randomness import generator


class Answers(nn.Module):
    """What a graph gives: scores; or probabilities, and unfamiliarity where the model knows it."""

    def __init__(self, model: FusedModel, probabilities: bool) -> None:
        super().__init__()
        self.model = model
        self.as_probabilities = probabilities

    @property
    def names(self) -> list[str]:
        if not self.as_probabilities:
            return ["scores"]
        return ["probabilities", *(["unfamiliarity"] if self.model.familiarity is not None else [])]

    def forward(self, images: Tensor) -> Tensor | tuple[Tensor, ...]:
        if not self.as_probabilities:
            scores: Tensor = self.model(images)
            return scores
        probabilities = self.model.probabilities(images)
        strange = self.model.unfamiliarity(images)
        return probabilities if strange is None else (probabilities, strange)

    def listed(self, images: Tensor) -> list[Tensor]:
        return as_list(self(images))

    def documents(self) -> dict[str, str]:
        """What travels with a graph, as JSON: the card, and how to call it."""
        channels, height, width = self.model.shape
        classes = self.model.class_names
        shapes = {name: ["batch", len(classes)] for name in self.names}
        if "unfamiliarity" in shapes:
            shapes["unfamiliarity"] = ["batch"]
        interface: dict[str, Any] = {
            "input": {
                "name": "images",
                "shape": ["batch", channels, height, width],
                "range": [0, 1],
                "colour": "RGB" if channels == 3 else "grey",
            },
            "outputs": [{"name": name, "shape": shape} for name, shape in shapes.items()],
            "class_names": classes,
            "image_size": [height, width],
        }
        return {"card": json.dumps(asdict(self.model.card)), "interface": json.dumps(interface)}

    def example(self) -> tuple[Tensor]:
        return (torch.zeros(2, *self.model.shape),)


def as_list(answer: Any) -> list[Tensor]:
    return [answer] if isinstance(answer, Tensor) else list(answer)


def write_exported_program(answers: Answers, path: Path) -> None:
    """For torch.export.load: any batch size; `card.json` and `interface.json` are extra files."""
    program = torch.export.export(
        answers, answers.example(), dynamic_shapes=({0: torch.export.Dim("batch")},)
    )
    files: dict[str, Any] = {f"{name}.json": text for name, text in answers.documents().items()}
    torch.export.save(program, path, extra_files=files)


def read_exported_program(path: Path) -> Callable[[Tensor], list[Tensor]]:
    module = torch.export.load(path).module()
    return lambda images: as_list(module(images))


def write_onnx(answers: Answers, path: Path) -> None:
    """`images` in, any batch size; the card and the interface are among the model's properties."""
    import onnx

    logging.getLogger("torch.onnx").setLevel(logging.ERROR)  # it misses torchvision, which we do not
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            answers,
            answers.example(),
            path,
            input_names=["images"],
            output_names=answers.names,
            dynamic_shapes=({0: torch.export.Dim("batch")},),
            external_data=False,
            verbose=False,
        )
    model = onnx.load(path)
    onnx.helper.set_model_props(model, answers.documents())
    onnx.save(model, path)


def read_onnx(path: Path) -> Callable[[Tensor], list[Tensor]] | None:
    """Without ONNX Runtime the graph is checked and cannot be asked: None."""
    try:
        import onnxruntime  # type: ignore[import-untyped]
    except ImportError:
        import onnx

        onnx.checker.check_model(path, full_check=True)
        return None
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return lambda images: [torch.from_numpy(e) for e in session.run(None, {"images": images.numpy()})]


Writer = Callable[[Answers, Path], None]
Reader = Callable[[Path], Callable[[Tensor], list[Tensor]] | None]
PROBES = 16
CLOSE = 1e-3
"""Of the largest answer: two runtimes add in another order."""


@torch.no_grad()
def export(model: FusedModel, path: Path, probabilities: bool = False) -> None:
    """Write it in the form that the file's suffix names, and load it again before it is kept.

    A graph gives scores, or `probabilities` and how unfamiliar a picture is.
    """
    check_target(path, probabilities)
    probe = torch.rand(PROBES, *model.shape, generator=generator(0, "probe"))
    if not model(probe.to(next(model.buffers()).device)).isfinite().all():
        raise UserError("this model's scores are not finite; the run that made it diverged")
    path.parent.mkdir(parents=True, exist_ok=True)
    answers = Answers(model, probabilities)
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
                    return "its answers differ from the model's"
    except UserError as error:
        return str(error).removeprefix(f"{place}: ")
    except Exception as error:  # every runtime has errors of its own
        return f"{type(error).__name__}: {error}".splitlines()[0]
    return None


def check_target(path: Path, probabilities: bool = False) -> None:
    """Refuse a file that could not be written in the end."""
    suffix = path.suffix.lower()
    if suffix not in FORMATS:
        raise UserError(f"{path}: ends in none of {', '.join(FORMATS)}")
    if path.is_dir():
        raise UserError(f"{path}: is a folder")
    if suffix == ".onnx" and not (find_spec("onnx") and find_spec("onnxscript")):
        raise UserError(f"{path}: ONNX needs the extra: pip install 'anchorfl[onnx]'")
    if probabilities and suffix == ".safetensors":
        raise UserError(f"{path}: holds scores and temperature; --probabilities is for .pt2 and .onnx")


def write_stored(answers: Answers, path: Path) -> None:
    answers.model.save(path)


def read_stored(path: Path) -> Callable[[Tensor], list[Tensor]] | None:
    """A file of the user's own encoder is not asked again: no code is imported for it."""
    try:
        return Answers(FusedModel.load(path), False).listed
    except UserError as error:
        if "code:" in str(error):
            return None
        raise


FORMATS: dict[str, tuple[Writer, Reader]] = {
    ".safetensors": (write_stored, read_stored),
    ".pt2": (write_exported_program, read_exported_program),
    ".onnx": (write_onnx, read_onnx),
}
