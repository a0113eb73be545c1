"""How many numbers describe an image, in how many bits their sums travel, and what that is worth.

    python -m benchmarks.widths data.name=NAME [model.weights=START] [KEY=VALUE ...] \
        >> benchmarks/records/widths.jsonl

Nobody trains: five clients (alpha 0.05, seed 1) send sums of their images' descriptions, of a tenth of
the training images none. A JSON line per width and precision: accuracy of `sketch-lda` and
`sketch-ridge` on the images held out, to choose by, and on test images, and megabytes up per client.
Without a start the sketch alone describes them, by as many numbers as `describe.filters` makes.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch
from benchmarks.shared import described

from anchorfl.compute import choose_device
from anchorfl.data import draw_partition, load_dataset
from anchorfl.describe import (
    Sums,
    discriminant,
    factored,
    in_full,
    ridge,
    second_moments,
    summed,
    with_constant,
)
from anchorfl.messages import read_start
from anchorfl.prepare import describer_for
from anchorfl.settings import parse_words, resolve

WIDTHS = (500, 1000, 2000, 3000, 4000, 5000, 6000)
PRECISIONS = ("fp32", "fp16", "fp8")
"""The last is of a start's description."""
USUAL = {"partition.alpha": 0.05, "seed": 1, "data.validation": 0.1, "describe.width": max(WIDTHS)}


def compare(settings: dict[str, object]) -> None:
    config = resolve("none", {**USUAL, **settings})
    device, dataset = choose_device("auto"), load_dataset(config.data)
    weights = config.model.weights
    start = read_start(Path(weights)) if weights else None
    describer = describer_for(config, dataset.facts, start).to(device)
    known, asked = (
        described(describer, torch.as_tensor(each.images), device)
        for each in (dataset.train, dataset.test)
    )
    labels = torch.as_tensor(dataset.train.labels, device=device)
    parts = draw_partition(dataset.train.labels, config.partition, config.data.validation, dataset.name)
    held_out = torch.as_tensor(parts.validation, device=device)
    images = {
        "validation": (known[held_out], labels[held_out]),
        "test": (asked, torch.as_tensor(dataset.test.labels, device=device)),
    }
    most = known.shape[1]
    for width in (*(each for each in WIDTHS if start and each < most), most):
        sums = []
        for own in (torch.as_tensor(each, device=device) for each in parts.clients):
            targets = torch.eye(dataset.facts.classes, device=device)[labels[own]]
            targets = targets * (targets.sum(dim=0) >= config.upload.min_count)
            leaving = targets.any(dim=1)
            rows = with_constant(known[own[leaving], :width])
            sums.append(second_moments(rows, targets[leaving]))
        for precision in PRECISIONS if start else PRECISIONS[:2]:
            sent = [factored(each, precision, width if start else 0) for each in sums]
            total = Sums.of(summed(map(in_full, sent)))
            penalty = total.fit.penalty
            line: dict[str, object] = {
                "data": dataset.name,
                "start": Path(weights).stem if weights else "none",
                "width": width,
                "sums": precision,
                "MB": round(sum(value.nbytes for value in sent[0].values()) / 1e6, 2),
                "R^2": round(total.fit.explained, 4),
            }
            for rule, matrix in (
                ("sketch-lda", discriminant(total, penalty)),
                ("sketch-ridge", ridge(total, penalty)),
            ):
                for name, (rows, true) in images.items():
                    right = (rows[:, :width] @ matrix[:-1] + matrix[-1]).argmax(dim=1) == true
                    line[f"{rule} {name}"] = round(float(right.float().mean()), 4)
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    with torch.no_grad():
        compare(parse_words(sys.argv[1:]))
