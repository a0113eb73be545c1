"""Sums of few images and of many: a fixed penalty beside the one that the sums ask for.

    python -m benchmarks.shrinkage data.name=NAME [KEY=VALUE ...] >> benchmarks/records/shrinkage.jsonl

Fitted on 500 to 40,000 training images and asked about others of the training set (8,000, or a fifth):
a JSON line per number of images, accuracy of `sketch-lda` and `sketch-ridge` with the penalties that
were the defaults before (0.03, 0.001), and with those by cross-validation, of exact sums. With
`model.weights=START` they are of 10,000 images at most.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch
from benchmarks.shared import described
from torch import Tensor

from anchorfl.compute import choose_device
from anchorfl.data import Dataset, load_dataset
from anchorfl.describe import Sums, discriminant, ridge, second_moments, with_constant
from anchorfl.messages import read_start
from anchorfl.prepare import describer_for
from anchorfl.settings import parse_words, resolve

SIZES = (500, 1000, 2000, 4000, 10_000, 40_000)
HELD_OUT, WITH_START, SEED = 8000, 10_000, 11
FIXED_SHRINKAGE, FIXED_RIDGE = 0.03, 0.001


def rows_of(dataset: Dataset, chosen: Tensor, settings: dict[str, object]) -> Tensor:
    """[x 1] of these training images."""
    config = resolve("none", {**settings, "seed": SEED})
    start = read_start(Path(str(settings["model.weights"]))) if "model.weights" in settings else None
    device = choose_device("auto")
    describer = describer_for(config, dataset.facts, start).to(device)
    return with_constant(described(describer, torch.as_tensor(dataset.train.images)[chosen], device))


def penalties(sums: Sums) -> dict[str, tuple[float, float]]:
    """Of the discriminant analysis and of the regression."""
    fixed = FIXED_SHRINKAGE * sums.mean_variance, FIXED_RIDGE * sums.mean_square
    return {"fixed": fixed, "chosen": (sums.fit.penalty,) * 2}


def compare(settings: dict[str, object]) -> None:
    dataset = load_dataset(resolve("none", settings).data)
    start = "model.weights" in settings
    labels = torch.as_tensor(dataset.train.labels)
    held_out = min(HELD_OUT, len(labels) // 5)
    most = min(len(labels), held_out + (WITH_START if start else SIZES[-1]))
    chosen = torch.randperm(len(labels), generator=torch.Generator().manual_seed(SEED))[:most]
    rows, labels = rows_of(dataset, chosen, settings), labels[chosen]
    asked, true = rows[:held_out], labels[:held_out].to(rows.device)
    for size in (*(size for size in SIZES if size < most - held_out), most - held_out):
        fitted = slice(held_out, held_out + size)
        targets = torch.eye(dataset.facts.classes)[labels[fitted]].to(rows)
        sums = Sums.of(second_moments(rows[fitted], targets))
        line: dict[str, object] = {"data": dataset.name, "start": start, "images": size}
        for how, (shrinkage, penalty) in penalties(sums).items():
            for rule, matrix in (
                ("sketch-lda", discriminant(sums, shrinkage)),
                ("sketch-ridge", ridge(sums, penalty)),
            ):
                right = (asked @ matrix).argmax(dim=1) == true
                line[f"{rule} {how}"] = round(float(right.float().mean()), 4)
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    with torch.no_grad():
        compare(parse_words(sys.argv[1:]))
