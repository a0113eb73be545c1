"""A model at work: classes for images, and how right it is where the classes are known."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from anchorfl.compute import images_at_once
from anchorfl.data import (
    SUFFIXES,
    readable_images,
)
from anchorfl.errors import UserError
from anchorfl.model.fused import FusedModel


@dataclass(frozen=True)
class Prediction:
    """A image's most probable classes, the first the predicted one.

    Above an `unfamiliarity` of 1 it is unlike all sites' images; None where that is not known.
    """

    path: Path
    names: list[str]
    probabilities: list[float]
    unfamiliarity: float | None = None


def predict_images(
    model: FusedModel, places: Sequence[Path], top: int
) -> tuple[list[Prediction], list[tuple[Path, str]]]:
    """Pictures, and all that lie in folders, at the size the model takes; why others are none."""
    paths = [path for place in places for path in image_files(place)]
    if not paths:
        raise UserError("predict: there is no image among these")
    channels, height, _ = model.shape
    split, bad = readable_images([(path, k) for k, path in enumerate(paths)], height, channels)
    if not len(split):
        return [], bad
    probabilities = torch.cat(list(in_parts(model, split.images)))
    values, classes = probabilities.topk(min(top, probabilities.shape[1]), dim=1)
    strange = unfamiliarities(model, split.images)
    far: list[float | None] = [None] * len(split) if strange is None else strange.tolist()
    found = [
        Prediction(paths[k], [model.class_names[c] for c in row.tolist()], chances.tolist(), limit)
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


def batches(model: FusedModel, images: np.ndarray) -> Iterator[Tensor]:
    """uint8 images as floats in 0..1, as many at a time as suits the model's device."""
    device = next(model.buffers()).device
    parts = -(-len(images) // images_at_once(device, images.shape[2] * images.shape[3]))
    for part in torch.from_numpy(images).tensor_split(parts):
        yield part.to(device).float() / 255


@torch.no_grad()
def in_parts(model: FusedModel, images: np.ndarray) -> Iterator[Tensor]:
    """Probabilities of uint8 images."""
    for part in batches(model, images):
        probabilities = model.probabilities(part).cpu()
        if not probabilities.isfinite().all():
            raise UserError("this model's scores are not finite; the run that made it diverged")
        yield probabilities


@torch.no_grad()
def unfamiliarities(model: FusedModel, images: np.ndarray) -> Tensor | None:
    """Of uint8 images; None where the model does not know."""
    found = [model.unfamiliarity(part) for part in batches(model, images)]
    known = [each.cpu() for each in found if each is not None]
    return torch.cat(known) if known else None
