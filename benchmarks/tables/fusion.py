"""The tables of docs/fusion.md: rules of the server and what they cost."""

from __future__ import annotations

import statistics

from benchmarks.tables.figures import Row, lines, percent, run, table

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


@table("fusions")
def fusions() -> list[Row]:
    """V4, 40 epochs; at alpha 0.05 the mean of three seeds and their standard deviation."""
    found = [x for x in lines("fusions-h200.jsonl") if x["method"] == "v4" and x["seed"] in SEEDS]
    columns = [
        (data, alpha) for data in ("cifar10", "svhn", "cifar100") for alpha in (0.05, 0.1, 0.3, 0.5)
    ]
    names = {"cifar10": "CIFAR-10", "svhn": "SVHN", "cifar100": "CIFAR-100"}
    rows = [["", *(f"{names[d]} {a}" if a == 0.05 else str(a) for d, a in columns)]]
    for rule, remark in FUSIONS.items():
        cells = []
        for data, alpha in columns:
            own = [x["accuracy"][rule] for x in found if (x["dataset"], x["alpha"]) == (data, alpha)]
            mean = percent(statistics.mean(own))
            cells.append(f"{mean} ± {percent(statistics.stdev(own))}" if len(own) > 1 else mean)
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


@table("calibration")
def calibration() -> list[Row]:
    found = [x for x in lines("fusions-h200.jsonl") if x["method"] == "v4" and x["seed"] in SEEDS]
    found = [x for x in found if x["alpha"] == 0.05]
    rows = [["", "CIFAR-10", "SVHN", "CIFAR-100"]]
    for rule in ("sketch-guided", "joint-sketch-ridge", "class-mean", "zscore"):
        cells = []
        for data in ("cifar10", "svhn", "cifar100"):
            own = [x["calibration_error"][rule] for x in found if x["dataset"] == data]
            cells.append(percent(statistics.mean(own)))
        rows.append([f"`{rule}`", *cells])
    return rows


@table("costs")
def costs() -> list[Row]:
    """Bytes, seconds and operations of the rules on the recorded CIFAR-10 run of V4."""
    summary = run("study/001/v4").summary
    rows = [["", "MB up per client", "server, s", "ms per prediction", "GFLOP per prediction"]]
    for rule in ("feature-mean", "class-mean", "sketch-guided", "sketch-ridge", "parameter-mean"):
        by_rule = (summary.fusion_bytes, summary.server_seconds)
        by_rule += (summary.prediction_ms, summary.prediction_flops)
        up, server, prediction, flops = ((each or {})[rule] for each in by_rule)
        cells = [f"{up / 1e6:.1f}", f"{server:.3f}", f"{prediction:.3f}", f"{flops / 1e9:.2f}"]
        rows.append([f"`{rule}`", *cells])
    return rows


@table("start-widths")
def start_widths() -> list[Row]:
    """What more numbers buy, where nobody trains."""
    rows = [["`describe.width`, fields, sums", "held out", "test", "MB"]]
    for found in lines("start-widths.jsonl"):
        if found["ridge"] == 0.001:
            side = found["fields"]
            name = f"{found['width']:,}, {side} x {side}, {found['sums']}"
            numbers = [f"{found[key]:.1f}" for key in ("validation", "test", "MB")]
            rows.append([name, *numbers])
    return rows
