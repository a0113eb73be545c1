"""The tables of docs/fusion.md on a common start: what it adds, how it was made, many sites."""

from __future__ import annotations

import statistics

from benchmarks.tables.figures import KINDS, RECORDS, Row, lines, run, table
from benchmarks.tables.fusion import of_seeds

from anchorfl.runs import Summary, percent

STARTED = {
    "CIFAR-10, 5": "cifar10-k5",
    "CIFAR-10, 10": "cifar10-k10",
    "SVHN, 5": "svhn-k5",
    "CIFAR-100, 5": "cifar100-k5",
}
"""Column: the runs from a start; those from scratch on the same draws are called `scratch-`."""


def started(prefix: str) -> list[Summary]:
    return [run(f"start/{path.name}").summary for path in sorted(RECORDS.glob(f"start/{prefix}-*"))]


@table("start")
def from_a_start() -> list[Row]:
    """alpha 0.05; from a start the mean and standard deviation over seeds, from scratch seed 1."""
    rows = [["", *STARTED]]
    for rule, name in (
        ("sketch-guided", "from scratch, one exchange"),
        ("joint-sketch-ridge", "from scratch, two"),
    ):
        found = [started(f"scratch-{prefix}") for prefix in STARTED.values()]
        cells = [percent(own[0].final_accuracy[rule]) if own else "not measured" for own in found]
        rows.append([name, *cells])
    for rule, name in (
        ("sketch-lda", "start, nobody trains: `sketch-lda`"),
        ("class-mean", "start, encoders alone: `class-mean`"),
        ("sketch-guided", "**start, one exchange: `sketch-guided`**"),
        ("joint-sketch-ridge", "**start, two: `joint-sketch-ridge`**"),
    ):
        found = [started(prefix) for prefix in STARTED.values()]
        rows.append([name, *(of_seeds([x.final_accuracy[rule] for x in own]) for own in found)])
    for name, rule in (
        ("MB up per client, one exchange", "sketch-guided"),
        ("two", "joint-sketch-ridge"),
    ):
        sizes = [(started(p)[0].fusion_bytes or {})[rule] for p in STARTED.values()]
        rows.append([name, *(f"{size / 1e6:.0f}" for size in sizes)])
    times = [statistics.median(x.train_seconds for x in started(p)) for p in STARTED.values()]
    rows.append(["training, s on one H200", *(f"{each:.0f}" for each in times)])
    return rows


NONE = {
    ("synthetic pictures", 3000): ("none-cifar10-3000", "none-cifar100-3000", None),
    ("synthetic pictures", 6000): ("none-cifar10-6000", "none-cifar100-6000", None),
    ("the same, `--crop 0.6`", 6000): (
        "crop06-cifar10-k5-seed1",
        "crop06-cifar100-k5-seed1",
        "svhn-k5-seed1",
    ),
    ("ImageNet (EfficientNet-Lite0)", 3000): ("imagenet-cifar10-3000", "imagenet-cifar100-3000", None),
}
"""Runs by network, numbers and data; where clients trained, sums are what they are without."""


@table("start-none")
def nobody_trains() -> list[Row]:
    """Sums alone; what is in brackets is of ridge regression on the same sums."""
    rows = [["network", "`describe.width`", "CIFAR-10", "CIFAR-100", "SVHN", "MB up per client"]]
    for (network, width), names in NONE.items():
        ends = [run(f"start/{name}").summary if name else None for name in names]
        cells = [
            "not measured"
            if end is None
            else f"{percent(end.final_accuracy['sketch-lda'])}"
            f" ({percent(end.final_accuracy['sketch-ridge'])})"
            for end in ends
        ]
        sizes = [(end.fusion_bytes or {})["sketch-lda"] / 1e6 for end in ends if end is not None]
        rows.append([network, f"{width:,}", *cells, f"{min(sizes):.1f} to {max(sizes):.1f}"])
    return rows


@table("start-pictures")
def pictures() -> list[Row]:
    """Held-out images, `sketch-lda`: what the pictures contain, and whether views are mirrored."""
    rows = [["pictures", "views in training", "CIFAR-10", "SVHN"]]
    found = [x for x in lines("start-choices.jsonl") if x["kind"] == "pictures"]
    made = dict.fromkeys((x["pictures"], x["mirrored_views"]) for x in found)
    for kind, mirrored in sorted(made, key=lambda each: (each[0], not each[1])):
        own = {x["data"]: x for x in found if (x["pictures"], x["mirrored_views"]) == (kind, mirrored)}
        cells = [percent(own[data]["sketch-lda"]) for data in ("cifar10", "svhn")]
        rows.append([kind, "mirrored by half" if mirrored else "as they are", *cells])
    return rows


BY_CROP = {
    "CIFAR-10": {"0.2": "cifar10-k5", "0.6": "crop06-cifar10-k5"},
    "CIFAR-100": {"0.2": "cifar100-k5", "0.6": "crop06-cifar100-k5"},
    "SVHN": {"0.2, 4,000 numbers, earlier rules": "earlier-svhn-k5", "0.6": "svhn-k5"},
}


@table("start-crop")
def by_crop() -> list[Row]:
    """Test images, five clients, alpha 0.05: how little of a picture a view of the start keeps."""
    rules = {
        "nobody trains": "sketch-lda",
        "encoders alone": "class-mean",
        "one exchange": "sketch-guided",
        "two": "joint-sketch-ridge",
    }
    rows = [["data", "`--crop`", *rules]]
    for name, prefixes in BY_CROP.items():
        for views, prefix in prefixes.items():
            ends = [end.final_accuracy for end in started(prefix)]
            rows.append(
                [name, views, *(of_seeds([end[rule] for end in ends]) for rule in rules.values())]
            )
    return rows


@table("start-views")
def views() -> list[Row]:
    """Held-out images: how little a training view keeps, and what trained encoders are shown."""
    rules = ("class-mean", "sketch-guided", "joint-sketch-ridge")
    settings = ["seed", "`data.crop`", "`train.lr`", "shown"]
    rows = [["data", "start", *settings, "owner", *(f"`{rule}`" for rule in rules)]]
    for x in lines("start-choices.jsonl"):
        if x["kind"] != "views":
            continue
        shown = " and ".join("whole" if share == 1 else f"{share:g}" for share in x["shown"])
        shown += ", mirrored too" if x.get("mirrored") else ""
        cells = [percent(x[rule]) for rule in ("owner", *rules)]
        name = KINDS[x["data"]]
        how = [str(x["seed"]), f"{x['crop']:g}", f"{x.get('lr', 0.05):g}", shown]
        rows.append([name, x["start"], *how, *cells])
    return rows


SMALL = ("cifar10", "fashion-mnist", "digits")


@table("start-small")
def on_a_cpu() -> list[Row]:
    """A `small-cnn` made on two cores: accuracy held out, on test images, and megabytes up."""
    rows = [["data", "the start takes, s", "sites", "epochs", "rule"]]
    rows[0] += ["from scratch: held out", "test", "MB", "from a start: held out", "test", "MB"]
    found = {(x["data"], x["method"], x["start"]): x for x in lines("start-small.jsonl")}
    for data in SMALL:
        for method, rule in (("none", "sketch-lda"), ("v4", "sketch-guided")):
            plain, started = (found[data, method, start] for start in (False, True))
            about = [
                KINDS[data],
                f"{started['start_seconds']}",
                str(plain["sites"]),
                str(plain["epochs"]),
            ]
            cells = [
                cell
                for own in (plain, started)
                for cell in (
                    percent(own["validation"][rule]),
                    percent(own["test"][rule]),
                    f"{own['MB'][rule]:.1f}",
                )
            ]
            rows.append([*about, f"`{rule}`", *cells])
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


@table("calibration")
def calibration() -> list[Row]:
    """Mean over the seeds of the runs from a start."""
    rows = [["", "CIFAR-10", "SVHN", "CIFAR-100"]]
    for rule in ("sketch-guided", "joint-sketch-ridge", "sketch-lda", "class-mean"):
        errors = [
            statistics.mean((end.calibration_error or {})[rule] for end in started(prefix))
            for prefix in ("cifar10-k5", "svhn-k5", "cifar100-k5")
        ]
        rows.append([f"`{rule}`", *map(percent, errors)])
    return rows
