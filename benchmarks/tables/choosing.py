"""The tables of docs/choosing.md: what each choice is worth."""

from __future__ import annotations

import statistics

from benchmarks.tables.figures import Row, run, table
from benchmarks.tables.fusion import five_from_scratch
from benchmarks.tables.starts import started

from anchorfl.runs import percent, quantity

RULES = {
    "sketch-lda": "one",
    "class-mean": "one",
    "sketch-guided": "one",
    "joint-sketch-ridge": "two",
}
METHODS = {
    "CIFAR-10": ("001", ("v4", "v7", "v9", "v10", "v10-decoupled")),
    "SVHN": ("002", ("v12", "v12-batch", "v12-gamma")),
}


@table("choose-rules")
def rules() -> list[Row]:
    """CIFAR-10, five clients, alpha 0.05, mean of seeds 1 to 3."""
    scratch = five_from_scratch()
    common = started("cifar10-k5")
    rows = [
        ["rule", "exchanges", "MB up per client", "from scratch, older rules", "from a common start"]
    ]
    for rule, exchanges in RULES.items():
        before = [each[rule] for each in scratch if rule in each]
        after = [each.final_accuracy[rule] for each in common]
        size = (common[0].fusion_bytes or {})[rule] / 1e6
        mean = percent(statistics.mean(before)) if before else "not measured"
        cells = [exchanges, f"{size:.0f}", mean, percent(statistics.mean(after))]
        rows.append([f"`{rule}`", *cells])
    averaged = percent(statistics.mean(each["normalised-feature-mean"] for each in scratch))
    rows.append(["`normalised-feature-mean`", "one", "45", averaged, "not measured"])
    return rows


@table("choose-methods")
def methods() -> list[Row]:
    """The diary's draws at alpha 0.05, 50 rounds, one seed each."""
    fusions = ("feature-mean", "class-mean", "sketch-guided")
    rows = [["data", "method", *(f"`{name}`" for name in fusions), "largest lambda"]]
    for data, (folder, names) in METHODS.items():
        for name in names:
            found = run(f"study/{folder}/{name}")
            shares = [percent(found.summary.final_accuracy[rule]) for rule in fusions]
            largest = quantity(found.largest_lambda)
            rows.append([data, f"`{name}`", *shares, largest])
    return rows
