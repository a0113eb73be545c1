"""The tables of docs/fusion.md: rules of the server and what they cost."""

from __future__ import annotations

import statistics

from benchmarks.tables.figures import RECORDS, Row, lines, run, table

from anchorfl.runs import Summary, percent

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


STARTED = {
    "CIFAR-10, 5": ("cifar10", "cifar10-k5"),
    "CIFAR-10, 10": ("cifar10-k10", "cifar10-k10"),
    "SVHN, 5": ("svhn", "svhn-k5"),
    "CIFAR-100, 5": ("cifar100", "cifar100-k5"),
}
"""Column: the data set, or the runs, from scratch, and the runs from a start."""


def started(prefix: str) -> list[Summary]:
    return [run(f"start/{path.name}").summary for path in sorted(RECORDS.glob(f"start/{prefix}-*"))]


def five_from_scratch() -> list[dict[str, float]]:
    """Accuracy by rule: CIFAR-10, five clients, alpha 0.05, V4, a run per seed."""
    found = [x for x in lines("fusions-h200.jsonl") if x["method"] == "v4" and x["alpha"] == 0.05]
    return [x["accuracy"] for x in found if x["dataset"] == "cifar10" and x["seed"] in SEEDS]


def of_seeds(shares: list[float]) -> str:
    """Their mean, and their standard deviation where there are several."""
    mean = percent(statistics.mean(shares))
    return f"{mean} ± {percent(statistics.stdev(shares))}" if len(shares) > 1 else mean


@table("start")
def from_a_start() -> list[Row]:
    """alpha 0.05; the mean of seeds 1 to 3 with five clients on CIFAR-10, else seed 1."""
    scratch = [x for x in lines("fusions-h200.jsonl") if x["method"] == "v4" and x["alpha"] == 0.05]
    rows = [["", *STARTED]]
    for rule, name in (
        ("sketch-guided", "from scratch, one exchange"),
        ("joint-sketch-ridge", "from scratch, two"),
    ):
        cells = []
        for data, prefix in STARTED.values():
            seeds = [int(path.name[-1]) for path in RECORDS.glob(f"start/{prefix}-*")]
            own = [x["accuracy"][rule] for x in scratch if x["dataset"] == data and x["seed"] in seeds]
            own = own or [each.final_accuracy[rule] for each in started(f"scratch-{prefix}")]
            cells.append(of_seeds(own))
        rows.append([name, *cells])
    for rule, name in (
        ("sketch-lda", "start, nobody trains: `sketch-lda`"),
        ("class-mean", "start, encoders alone: `class-mean`"),
        ("sketch-guided", "**start, one exchange: `sketch-guided`**"),
        ("joint-sketch-ridge", "**start, two: `joint-sketch-ridge`**"),
        ("joint-sketch-lda", "a discriminant analysis on the sums of that (tried, and left out)"),
    ):
        found = [started(prefix) for _, prefix in STARTED.values()]
        rows.append([name, *(of_seeds([x.final_accuracy[rule] for x in own]) for own in found)])
    for name, rule in (
        ("MB up per client, one exchange", "sketch-guided"),
        ("two", "joint-sketch-ridge"),
    ):
        sizes = [(started(p)[0].fusion_bytes or {})[rule] for _, p in STARTED.values()]
        rows.append([name, *(f"{size / 1e6:.0f}" for size in sizes)])
    times = [statistics.median(x.train_seconds for x in started(p)) for _, p in STARTED.values()]
    rows.append(["training, s on one H200", *(f"{each:.0f}" for each in times)])
    return rows


@table("start-none")
def nobody_trains() -> list[Row]:
    """Sums alone; what is in brackets is of ridge regression on the same sums."""
    rows = [["network", "`describe.width`", "CIFAR-10", "CIFAR-100", "SVHN", "MB up per client"]]
    for kind, name in (("none", "synthetic pictures"), ("imagenet", "ImageNet (EfficientNet-Lite0)")):
        for width in (3000, 4000, 6000):
            found = {x: RECORDS / f"start/{kind}-{x}-{width}" for x in ("cifar10", "cifar100", "svhn")}
            ends = {x: run(f"start/{path.name}").summary for x, path in found.items() if path.is_dir()}
            if not ends:
                continue
            cells = [
                f"{percent(ends[x].final_accuracy['sketch-lda'])}"
                f" ({percent(ends[x].final_accuracy['sketch-ridge'])})"
                if x in ends
                else "not measured"
                for x in found
            ]
            sizes = [max(filter(None, end.upload_bytes)) / 1e6 for end in ends.values()]
            rows.append([name, f"{width:,}", *cells, f"{min(sizes):.1f} to {max(sizes):.1f}"])
    return rows


CLIENTS = (5, 10, 20, 50, 100)
BY_CLIENTS = {
    "from scratch, sums alone: `sketch-lda`": ("scratch", "sketch-lda"),
    "from scratch, encoders alone: `class-mean`": ("scratch", "class-mean"),
    "from scratch, one exchange: `sketch-guided`": ("scratch", "sketch-guided"),
    "from scratch, two: `joint-sketch-ridge`": ("scratch", "joint-sketch-ridge"),
    "start, sums alone: `sketch-lda`": ("start", "sketch-lda"),
    "start, encoders alone: `class-mean`": ("start", "class-mean"),
    "**start, one exchange: `sketch-guided`**": ("start", "sketch-guided"),
    "**start, two: `joint-sketch-ridge`**": ("start", "joint-sketch-ridge"),
}


def by_clients(kind: str, rule: str) -> dict[int, float]:
    """Accuracy by the number of clients, where that was measured."""
    runs = {clients: run(f"clients/{kind}-{clients}").summary for clients in CLIENTS}
    found = {clients: end.final_accuracy.get(rule) for clients, end in runs.items()}
    return {clients: share for clients, share in found.items() if share is not None}


def pretrained() -> float:
    """ImageNet's network, sums alone: the same with any number of clients."""
    return run("start/imagenet-cifar10-3000").summary.final_accuracy["sketch-lda"]


@table("clients")
def against_clients() -> list[Row]:
    """CIFAR-10, alpha 0.1, 20 epochs, seed 1."""
    rows = [["clients", *map(str, CLIENTS)]]
    for name, (kind, rule) in BY_CLIENTS.items():
        found = by_clients(kind, rule)
        cells = [percent(found[each]) if each in found else "not measured" for each in CLIENTS]
        rows.append([name, *cells])
    rows.append(["ImageNet network, sums alone: `sketch-lda`", *[percent(pretrained())] * len(CLIENTS)])
    ends = [run(f"clients/start-{each}").summary for each in CLIENTS]
    for name, rule in (
        ("start: MB up per client, one exchange", "sketch-guided"),
        ("two", "joint-sketch-ridge"),
    ):
        sizes = [(end.fusion_bytes or {}).get(rule) for end in ends]
        rows.append([name, *(f"{size / 1e6:.0f}" if size else "not measured" for size in sizes)])
    rows.append(["training, s on one H200", *(f"{end.train_seconds:.0f}" for end in ends)])
    return rows
