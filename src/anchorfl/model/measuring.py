"""How right a model is on labelled images."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from anchorfl.config import DataOptions
from anchorfl.data import DATASETS, Split, class_folders, listed, load_dataset, read_images
from anchorfl.errors import UserError
from anchorfl.measures import Evaluation, balanced_accuracy, calibration_error, macro_f1
from anchorfl.model.fused import FusedModel
from anchorfl.model.inference import in_parts, unfamiliarities


@dataclass(frozen=True)
class Measures:
    images: int
    accuracy: float
    balanced_accuracy: float
    macro_f1: float
    calibration_error: float
    recall: dict[str, float | None]
    unfamiliar: float | None


def labelled(model: FusedModel, data: str, root: str) -> Split:
    """The test images of a known data set, or a folder of class folders named as the model's."""
    if data in DATASETS.names() and data != "folder":
        dataset = load_dataset(DataOptions(name=data, root=root))
        if dataset.class_names != model.class_names or dataset.facts.shape != model.shape:
            raise UserError(f"--data {data}: other classes or another size than the model's")
        return dataset.test
    place = Path(data).expanduser()
    if not place.is_dir():
        known = ", ".join(name for name in DATASETS.names() if name != "folder")
        raise UserError(f"--data {data}: neither a folder nor one of {known}")
    strangers = set(class_folders(place)) - set(model.class_names)
    if strangers:
        raise UserError(f"{place}: {sorted(strangers)[0]!r} is none of the model's classes")
    present = listed(place, model.class_names)
    if not present:
        raise UserError(f"{place}: holds no image in a folder named after a class")
    channels, height, _ = model.shape
    return read_images(present, height, channels)


def confusion_of(model: FusedModel, split: Split) -> Tensor:
    """Counts, true class x predicted class."""
    probabilities = torch.cat(list(in_parts(model, split.images)))
    return Evaluation(torch.from_numpy(split.labels), {"it": probabilities}, {}).confusions()["it"]


def measure(model: FusedModel, split: Split) -> Measures:
    probabilities = torch.cat(list(in_parts(model, split.images)))
    labels = torch.from_numpy(split.labels)
    evaluation = Evaluation(labels, {"it": probabilities}, {})
    confusion = evaluation.confusions()["it"]
    totals = confusion.sum(dim=1)
    recall = (confusion.diagonal() / totals.clamp(min=1)).tolist()
    strange = unfamiliarities(model, split.images)
    return Measures(
        images=len(split),
        accuracy=evaluation.accuracy()["it"],
        balanced_accuracy=balanced_accuracy(confusion),
        macro_f1=macro_f1(confusion),
        calibration_error=calibration_error(probabilities, labels),
        recall={name: recall[k] if totals[k] else None for k, name in enumerate(model.class_names)},
        unfamiliar=None if strange is None else float((strange > 1).double().mean()),
    )
