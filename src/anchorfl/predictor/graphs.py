"""A predictor as a graph that runs without this package: torch.export and ONNX."""

from __future__ import annotations

import json
import logging
import warnings
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from anchorfl.errors import UserError
from anchorfl.predictor.module import Predictor


class Answers(nn.Module):
    """What a graph gives: scores; or probabilities, and unfamiliarity where the predictor knows it."""

    def __init__(self, predictor: Predictor, probabilities: bool) -> None:
        super().__init__()
        self.predictor = predictor
        self.as_probabilities = probabilities

    @property
    def names(self) -> list[str]:
        if not self.as_probabilities:
            return ["scores"]
        return ["probabilities", *(["unfamiliarity"] if self.predictor.familiarity is not None else [])]

    def forward(self, images: Tensor) -> Tensor | tuple[Tensor, ...]:
        if not self.as_probabilities:
            scores: Tensor = self.predictor(images)
            return scores
        probabilities = self.predictor.probabilities(images)
        strange = self.predictor.unfamiliarity(images)
        return probabilities if strange is None else (probabilities, strange)

    def listed(self, images: Tensor) -> list[Tensor]:
        return as_list(self(images))

    def documents(self) -> dict[str, str]:
        """What travels with a graph, as JSON: the card, and how to call it."""
        channels, height, width = self.predictor.shape
        classes = self.predictor.class_names
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
        return {"card": json.dumps(asdict(self.predictor.card)), "interface": json.dumps(interface)}

    def example(self) -> tuple[Tensor]:
        return (torch.zeros(2, *self.predictor.shape),)


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
    try:
        import onnx
        import onnxscript  # noqa: F401  torch's exporter needs it
    except ImportError:
        raise UserError(f"{path}: ONNX needs the extra: pip install 'anchorfl[onnx]'") from None
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
