"""How right predictions are: accuracy, recall, and how far probabilities can be relied on."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
import torch.nn.functional as F
from torch import Tensor

BINS = 15
COLDEST, HOTTEST, STEPS = 1e-3, 1e3, 60


def fit_temperature(scores: Tensor, labels: Tensor) -> float:
    """The t for which softmax(scores / t) gives the labels the highest likelihood.

    A grid over orders of magnitude, then golden sections around its best: the likelihood is concave
    in 1/t. Source: Guo et al., 2017 (temperature scaling).
    """
    scores = scores.double()

    def loss(log_temperature: float) -> float:
        return float(F.cross_entropy(scores / math.exp(log_temperature), labels))

    grid = torch.linspace(math.log(COLDEST), math.log(HOTTEST), STEPS).tolist()
    best = min(range(STEPS), key=lambda place: loss(grid[place]))
    low, high = grid[max(best - 1, 0)], grid[min(best + 1, STEPS - 1)]
    golden = 0.6180339887498949
    for _ in range(20):
        first, second = high - golden * (high - low), low + golden * (high - low)
        low, high = (low, second) if loss(first) < loss(second) else (first, high)
    return math.exp((low + high) / 2)


def calibration_error(probabilities: Tensor, labels: Tensor) -> float:
    """Expected calibration error: |accuracy - confidence| in 15 bins of confidence, by their size.

    Numbers that are not finite count as no confidence.
    """
    confidence, predicted = probabilities.double().nan_to_num(0).max(dim=1)
    right = (predicted == labels).double()
    place = (confidence * BINS).long().clamp(max=BINS - 1)
    gaps = torch.zeros(BINS, dtype=torch.double).index_add_(0, place, right - confidence)
    return float(gaps.abs().sum() / len(labels))


@dataclass(frozen=True)
class Evaluation:
    """The true classes of N images, every fusion's scores, and what each site predicts alone."""

    labels: Tensor
    scores: dict[str, Tensor]
    local: dict[str, Tensor]

    @cached_property
    def fused(self) -> dict[str, Tensor]:
        """The class that each fusion predicts."""
        return {name: scores.argmax(dim=1) for name, scores in self.scores.items()}

    def confusions(self) -> dict[str, Tensor]:
        """Counts by fusion, true class x predicted class."""
        return {name: self.confusion(predicted) for name, predicted in self.fused.items()}

    def confusion(self, predicted: Tensor) -> Tensor:
        classes = next(iter(self.scores.values())).shape[1]
        cells = torch.bincount(self.labels * classes + predicted, minlength=classes**2)
        return cells.view(classes, classes).double()

    def temperatures(self) -> dict[str, float]:
        """Those that make the most of these images' labels."""
        return {name: fit_temperature(scores, self.labels) for name, scores in self.scores.items()}

    def calibration_errors(self, temperatures: Mapping[str, float]) -> dict[str, float]:
        return {
            name: calibration_error((scores / temperatures[name]).softmax(dim=1), self.labels)
            for name, scores in self.scores.items()
        }

    def share_right(self, predicted: Tensor) -> float:
        return float((predicted == self.labels).double().mean())

    def accuracy(self) -> dict[str, float]:
        return {name: self.share_right(predicted) for name, predicted in self.fused.items()}

    def local_accuracy(self, sites: Sequence[str]) -> list[float | None]:
        """None for one that sent nothing."""
        return [self.share_right(self.local[site]) if site in self.local else None for site in sites]


def balanced_accuracy(confusion: Tensor) -> float:
    """Mean recall over the classes that occur."""
    totals = confusion.sum(dim=1)
    recall = confusion.diagonal()[totals > 0] / totals[totals > 0]
    return float(recall.mean())


def macro_f1(confusion: Tensor) -> float:
    """Mean over the classes that occur of 2 tp / (2 tp + fp + fn)."""
    totals = confusion.sum(dim=1)
    scores = 2 * confusion.diagonal() / (totals + confusion.sum(dim=0)).clamp(min=1)
    return float(scores[totals > 0].mean())
