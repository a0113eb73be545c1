"""The tables of docs/fusion.md: rules of the server and what they cost."""

from __future__ import annotations

import statistics

from benchmarks.tables.figures import KINDS, Row, lines, run, table

from anchorfl.runs import percent

SEEDS = (1, 2, 3)
FUSIONS = {
    "joint-sketch-ridge": " (second exchange)",
    "joint-ridge": " (second exchange)",
    "sketch-guided": " (default)",
    "sketch-ridge": " (nothing trained)",
    "class-mean": " (q = 0.5)",
    "class-weighted": "",
    "softmax-mean": "",
    "iffi": "",
    "normalised-feature-mean": "",
    "parameter-mean": "",
    "zscore": "",
    "zscore-batch": " (transductive)",
}


def five_from_scratch() -> list[dict[str, float]]:
    """Accuracy by rule: CIFAR-10, five clients, alpha 0.05, V4, a run per seed."""
    found = [x for x in lines("fusions-h200.jsonl") if x["method"] == "v4" and x["alpha"] == 0.05]
    return [x["accuracy"] for x in found if x["dataset"] == "cifar10" and x["seed"] in SEEDS]


def of_seeds(shares: list[float]) -> str:
    """Their mean, and their standard deviation where there are several."""
    mean = percent(statistics.mean(shares))
    return f"{mean} ± {percent(statistics.stdev(shares))}" if len(shares) > 1 else mean


@table("fusions")
def fusions() -> list[Row]:
    """V4, 40 epochs; at alpha 0.05 the mean of three seeds and their standard deviation."""
    found = [x for x in lines("fusions-h200.jsonl") if x["method"] == "v4" and x["seed"] in SEEDS]
    columns = [
        (data, alpha) for data in ("cifar10", "svhn", "cifar100") for alpha in (0.05, 0.1, 0.3, 0.5)
    ]
    rows = [["", *(f"{KINDS[d]} {a}" if a == 0.05 else str(a) for d, a in columns)]]
    for rule, remark in FUSIONS.items():
        cells = []
        for data, alpha in columns:
            own = [x["accuracy"][rule] for x in found if (x["dataset"], x["alpha"]) == (data, alpha)]
            cells.append(of_seeds(own))
        rows.append([f"`{rule}`{remark}", *cells])
    return rows


@table("fusions-best")
def fusions_best() -> list[Row]:
    found = [
        x for x in lines("fusions-h200.jsonl") if x["method"] == "v12-gamma" and x["seed"] in SEEDS
    ]
    rows = [["", *(f"seed {x['seed']}" for x in found), "mean"]]
    for rule in ("joint-sketch-ridge", "joint-ridge", "sketch-guided", "sketch-ridge", "class-mean"):
        own = [x["accuracy"][rule] for x in found]
        remark = FUSIONS[rule].replace("default", "one exchange").replace(" (q = 0.5)", "")
        rows.append([f"`{rule}`{remark}", *map(percent, own), percent(statistics.mean(own))])
    return rows


COSTED = (
    (
        "study/001/v4",
        "",
        ("feature-mean", "class-mean", "sketch-guided", "sketch-ridge", "parameter-mean"),
    ),
    (
        "start/cifar10-k5-seed2",
        " from a start",
        ("sketch-lda", "sketch-guided", "joint-sketch-ridge"),
    ),
)


@table("costs")
def costs() -> list[Row]:
    """Bytes, seconds and operations of the rules on recorded CIFAR-10 runs of V4."""
    rows = [["", "MB down per client", "MB up", "server, s", "ms per prediction", "GFLOP"]]
    for record, start, rules in COSTED:
        summary = run(record).summary
        for rule in rules:
            by_rule = (summary.fusion_bytes, summary.server_seconds)
            by_rule += (summary.prediction_ms, summary.prediction_flops)
            up, server, prediction, flops = ((each or {})[rule] for each in by_rule)
            again = (summary.exchange_bytes or [0])[0] if rule.startswith("joint") else 0
            down = f"{((summary.task_bytes or 0) + again) / 1e6:.0f}"
            cells = [f"{up / 1e6:.1f}", f"{server:.3f}", f"{prediction:.3f}", f"{flops / 1e9:.2f}"]
            rows.append([f"`{rule}`{start}", down, *cells])
    return rows
