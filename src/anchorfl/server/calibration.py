"""From scores to probabilities one can rely on: a temperature, and how far off they are."""

from __future__ import annotations

import math

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
