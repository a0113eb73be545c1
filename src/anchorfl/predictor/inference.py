"""A predictor at work: classes for images, and how right it is where the classes are known."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from anchorfl.compute import choose_device, images_at_once
from anchorfl.config import DataOptions
from anchorfl.data import (
    SUFFIXES,
    Split,
    class_folders,
    listed,
    load_dataset,
    read_images,
    readable_images,
)
from anchorfl.errors import UserError
from anchorfl.predictor.build import predictor_of
from anchorfl.predictor.module import Predictor
from anchorfl.predictor.stored import load_predictor
from anchorfl.registry import DATASETS
from anchorfl.runs import read_run
from anchorfl.server import Evaluation, balanced_accuracy, calibration_error, macro_f1


@dataclass(frozen=True)
class Prediction:
    """A image's most probable classes, the first the predicted one.

    Above an `unfamiliarity` of 1 it is unlike all sites' images; None where that is not known.
    """

    path: Path
    names: list[str]
    probabilities: list[float]
    unfamiliarity: float | None = None


@dataclass(frozen=True)
class Measures:
    images: int
    accuracy: float
    balanced_accuracy: float
    macro_f1: float
    calibration_error: float
    recall: dict[str, float | None]
    unfamiliar: float | None


def open_predictor(place: Path, trust: bool = False) -> Predictor:
    """Of a run's folder, or of a file that `anchorfl export` wrote; on the device there is.

    Code that a run's folder names is imported only where the user trusts it.
    """
    if not place.exists():
        raise UserError(f"{place}: no such file or folder")
    if place.is_file() and place.suffix != ".safetensors":
        raise UserError(f"{place}: name a run's folder, or a predictor that ends in .safetensors")
    predictor = load_predictor(place) if place.is_file() else predictor_of(read_run(place, trust))
    return predictor.to(choose_device("auto"))


def predict_images(
    predictor: Predictor, places: Sequence[Path], top: int
) -> tuple[list[Prediction], list[tuple[Path, str]]]:
    """Pictures, and all that lie in folders, at the size the predictor takes; why others are none."""
    paths = [path for place in places for path in image_files(place)]
    if not paths:
        raise UserError("predict: there is no image among these")
    channels, height, _ = predictor.shape
    split, bad = readable_images([(path, k) for k, path in enumerate(paths)], height, channels)
    if not len(split):
        return [], bad
    probabilities = torch.cat(list(in_parts(predictor, split.images)))
    values, classes = probabilities.topk(min(top, probabilities.shape[1]), dim=1)
    strange = unfamiliarities(predictor, split.images)
    far: list[float | None] = [None] * len(split) if strange is None else strange.tolist()
    found = [
        Prediction(paths[k], [predictor.class_names[c] for c in row.tolist()], chances.tolist(), limit)
        for k, row, chances, limit in zip(split.labels, classes, values, far, strict=True)
    ]
    return found, bad


def image_files(place: Path) -> list[Path]:
    if not place.exists():
        raise UserError(f"{place}: no such file or folder")
    if place.is_file():
        return [place]
    found = (path for path in sorted(place.glob("**/*")) if path.suffix.lower() in SUFFIXES)
    return [path for path in found if path.name[0] != "." and path.is_file()]


def batches(predictor: Predictor, images: np.ndarray) -> Iterator[Tensor]:
    """uint8 images as floats in 0..1, as many at a time as suits the predictor's device."""
    device = next(predictor.buffers()).device
    parts = -(-len(images) // images_at_once(device, images.shape[2] * images.shape[3]))
    for part in torch.from_numpy(images).tensor_split(parts):
        yield part.to(device).float() / 255


@torch.no_grad()
def in_parts(predictor: Predictor, images: np.ndarray) -> Iterator[Tensor]:
    """Probabilities of uint8 images."""
    for part in batches(predictor, images):
        probabilities = predictor.probabilities(part).cpu()
        if not probabilities.isfinite().all():
            raise UserError("this predictor's scores are not finite; the run that made it diverged")
        yield probabilities


@torch.no_grad()
def unfamiliarities(predictor: Predictor, images: np.ndarray) -> Tensor | None:
    """Of uint8 images; None where the predictor does not know."""
    found = [predictor.unfamiliarity(part) for part in batches(predictor, images)]
    known = [each.cpu() for each in found if each is not None]
    return torch.cat(known) if known else None


def labelled(predictor: Predictor, data: str, root: str) -> Split:
    """The test images of a known data set, or a folder of class folders named as the predictor's."""
    if data in DATASETS.names() and data != "folder":
        dataset = load_dataset(DataOptions(name=data, root=root))
        if dataset.class_names != predictor.class_names or dataset.facts.shape != predictor.shape:
            raise UserError(f"--data {data}: other classes or another size than the predictor's")
        return dataset.test
    place = Path(data).expanduser()
    if not place.is_dir():
        known = ", ".join(name for name in DATASETS.names() if name != "folder")
        raise UserError(f"--data {data}: neither a folder nor one of {known}")
    strangers = set(class_folders(place)) - set(predictor.class_names)
    if strangers:
        raise UserError(f"{place}: {sorted(strangers)[0]!r} is none of the predictor's classes")
    present = listed(place, predictor.class_names)
    if not present:
        raise UserError(f"{place}: holds no image in a folder named after a class")
    channels, height, _ = predictor.shape
    return read_images(present, height, channels)


def confusion_of(predictor: Predictor, split: Split) -> Tensor:
    """Counts, true class x predicted class."""
    probabilities = torch.cat(list(in_parts(predictor, split.images)))
    return Evaluation(torch.from_numpy(split.labels), {"it": probabilities}, {}).confusions()["it"]


def measure(predictor: Predictor, split: Split) -> Measures:
    probabilities = torch.cat(list(in_parts(predictor, split.images)))
    labels = torch.from_numpy(split.labels)
    evaluation = Evaluation(labels, {"it": probabilities}, {})
    confusion = evaluation.confusions()["it"]
    totals = confusion.sum(dim=1)
    recall = (confusion.diagonal() / totals.clamp(min=1)).tolist()
    strange = unfamiliarities(predictor, split.images)
    return Measures(
        images=len(split),
        accuracy=evaluation.accuracy()["it"],
        balanced_accuracy=balanced_accuracy(confusion),
        macro_f1=macro_f1(confusion),
        calibration_error=calibration_error(probabilities, labels),
        recall={name: recall[k] if totals[k] else None for k, name in enumerate(predictor.class_names)},
        unfamiliar=None if strange is None else float((strange > 1).double().mean()),
    )
