"""The first table of the README: what is run, what it reaches, what it costs."""

from __future__ import annotations

import statistics

from benchmarks.tables.figures import Row, run, table
from benchmarks.tables.fusion import five_from_scratch
from benchmarks.tables.starts import started

from anchorfl.runs import percent

FROM_A_START = {
    "sketch-lda": (
        "nobody trains: sums alone",
        "`anchorfl run none data.name=cifar10 model.weights=start.safetensors describe.width=6000`",
    ),
    "sketch-guided": ("**one exchange**", "`anchorfl run presets/start-cifar10.yaml seed=1`"),
    "joint-sketch-ridge": ("two exchanges", "the same run"),
}
FROM_SCRATCH = {
    "sketch-guided": (
        "one exchange, from scratch, earlier rules",
        "`anchorfl sweep presets/sweep-fusions.yaml`",
    ),
    "normalised-feature-mean": ("`normalised-feature-mean`, from scratch", "the same sweep"),
}


@table("readme")
def first() -> list[Row]:
    """CIFAR-10, five clients, alpha 0.05, seeds 1 to 3; seconds in the median."""
    rows = [["what is run", "accuracy, %", "MB up per site", "training, s", "command"]]
    ends = started("cifar10-k5")
    seconds = f"{statistics.median(end.train_seconds for end in ends):.0f}"
    for rule, (name, command) in FROM_A_START.items():
        mean = percent(statistics.mean(end.final_accuracy[rule] for end in ends))
        size = f"{(ends[0].fusion_bytes or {})[rule] / 1e6:.0f}"
        trained = "0" if rule == "sketch-lda" else seconds
        rows.append([name, f"**{mean}**" if "**" in name else mean, size, trained, command])
    sizes = run("study/001/v4").summary.fusion_bytes or {}
    for rule, (name, command) in FROM_SCRATCH.items():
        mean = percent(statistics.mean(each[rule] for each in five_from_scratch()))
        size = f"{sizes[rule] / 1e6:.0f}"
        rows.append([name, mean, size, "not recorded", command])
    return rows
