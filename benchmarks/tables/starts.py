"""The tables of docs/fusion.md on a common start: what it adds, how it was made, many sites."""

from __future__ import annotations

import statistics
from typing import Any

from benchmarks.tables.figures import RECORDS, Row, lines, run, table
from benchmarks.tables.fusion import of_seeds

from anchorfl.runs import Summary, percent


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


@table("start")
def from_a_start() -> list[Row]:
    """alpha 0.05; the mean over seeds and their standard deviation, in a column on the same draws."""
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


DATA = ("cifar10", "cifar100", "svhn")
NETWORKS = {
    "none": "synthetic pictures",
    "earlier-none": "the same without signs, views mirrored",
    "imagenet": "ImageNet (EfficientNet-Lite0)",
}


def sums_alone(kind: str, data: str, width: int) -> Summary | None:
    """Where nobody trained, or of the sums of a run whose clients did: they are the same."""
    names = [
        f"{kind}-{data}-{width}",
        *([f"{data}-k5-seed1"] if (kind, width) == ("none", 4000) else []),
    ]
    found = [name for name in names if (RECORDS / "start" / name).is_dir()]
    return run(f"start/{found[0]}").summary if found else None


@table("start-none")
def nobody_trains() -> list[Row]:
    """Sums alone; what is in brackets is of ridge regression on the same sums."""
    rows = [["network", "`describe.width`", "CIFAR-10", "CIFAR-100", "SVHN", "MB up per client"]]
    for kind, name in NETWORKS.items():
        for width in (3000, 4000, 6000):
            ends = [sums_alone(kind, data, width) for data in DATA]
            known = [end for end in ends if end is not None]
            if not known:
                continue
            cells = [
                "not measured"
                if end is None
                else f"{percent(end.final_accuracy['sketch-lda'])}"
                f" ({percent(end.final_accuracy['sketch-ridge'])})"
                for end in ends
            ]
            sizes = [(end.fusion_bytes or {})["sketch-lda"] / 1e6 for end in known]
            rows.append([name, f"{width:,}", *cells, f"{min(sizes):.1f} to {max(sizes):.1f}"])
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
        name = {"cifar10": "CIFAR-10", "svhn": "SVHN"}[x["data"]]
        how = [str(x["seed"]), f"{x['crop']:g}", f"{x.get('lr', 0.05):g}", shown]
        rows.append([name, x["start"], *how, *cells])
    return rows


SMALL = {
    "digits, five clients, 20 epochs": ("digits", 5, 20),
    "Fashion-MNIST, ten clients, `small-cnn`, 20 epochs": ("fashion-mnist", 10, 20),
    "CIFAR-10, ten clients, `small-cnn`, 2 epochs": ("cifar10", 10, 2),
    "CIFAR-10, ten clients, `small-cnn`, 20 epochs": ("cifar10", 10, 20),
}
"""Runs of sweep-guided.yaml under today's rules: data, clients, rounds in trust.jsonl."""
EARLIER = {
    "CIFAR-10, five clients, from a start": "start/cifar10-k5",
    "CIFAR-10, ten clients, from a start": "start/cifar10-k10",
    "CIFAR-100, five clients, from a start": "start/cifar100-k5",
    "SVHN, five clients, from a start": "start/svhn-k5",
}
"""Recorded runs with the weight m, 0.05 in its scale, and a fixed penalty."""
EARLIER_RULE = {"fusion.sketch-guided.guidance": 0.05, "fusion.sketch-guided.shrinkage": 0.03}


KINDS = {
    "digits": "digits",
    "fashion-mnist": "Fashion-MNIST",
    "cifar10": "CIFAR-10",
    "cifar100": "CIFAR-100",
    "svhn": "SVHN",
}


def both_rules(found: dict[str, Any] | None, how: str) -> str:
    if found is None:
        return "not measured"
    return f"{percent(found[f'sketch-lda {how}'])} ({percent(found[f'sketch-ridge {how}'])})"


@table("shrinkage")
def shrinkage() -> list[Row]:
    """Held-out images, by how many were fitted: penalties that were fixed, and those by the sums."""
    found = lines("shrinkage.jsonl")
    sizes = sorted({x["images"] for x in found})
    rows = [["images fitted", "penalty", *(f"{size:,}" for size in sizes)]]
    for data, start in dict.fromkeys((x["data"], x["start"]) for x in found):
        own = {x["images"]: x for x in found if (x["data"], x["start"]) == (data, start)}
        name = KINDS[data] + (", ImageNet network" if start else "")
        for how in ("fixed", "chosen"):
            rows.append([name, how, *(both_rules(own.get(size), how) for size in sizes)])
    return rows


@table("trust")
def trust() -> list[Row]:
    """What dividing the guide's weight by S does, on held-out images."""
    names = {"guide": "guide alone", "m": "weight m", "m / S": "m / S", "m / S^2": "m / S^2"}
    rows = [["data", "network", "sites", "epochs", "runs", "m", "S", *names.values()]]
    found = [x for x in lines("trust.jsonl") if x["images"] == "held out"]
    kinds = ("data.name", "model.name", "partition.clients", "train.rounds")
    for kind in dict.fromkeys(tuple(x[key] for key in kinds) for x in found):
        own = [x for x in found if tuple(x[key] for key in kinds) == kind]
        data, network, sites, epochs = kind
        cells = [percent(statistics.mean(x["accuracy"][name] for x in own)) for name in names]
        shares = [f"{statistics.mean(x[key] for x in own):.2f}" for key in ("m", "S")]
        about = [KINDS[data], network, str(sites), str(epochs), str(len(own))]
        rows.append([*about, *shares, *cells])
    return rows


@table("guided")
def guided() -> list[Row]:
    """The guided rule beside its guide, draw by draw, on test images."""
    rows = [["data", "draws", "`sketch-lda`", "`sketch-guided`", "smallest gain", "largest gain"]]
    for name, kind in SMALL.items():
        own = [x["accuracy"] for x in lines("trust.jsonl") if x["images"] == "test" and same(x, kind)]
        rows.append(gains(name, [(x["guide"], x["m / S"]) for x in own]))
    for name, prefix in EARLIER.items():
        runs = [run(str(path.relative_to(RECORDS))) for path in sorted(RECORDS.glob(f"{prefix}-*"))]
        assert all(EARLIER_RULE.items() <= each.settings.items() for each in runs)
        own = [each.summary.final_accuracy for each in runs]
        rows.append(
            gains(f"{name}, earlier rules", [(x["sketch-lda"], x["sketch-guided"]) for x in own])
        )
    return rows


def same(found: dict[str, Any], kind: tuple[str, int, int]) -> bool:
    return kind == (found["data.name"], found["partition.clients"], found["train.rounds"])


def gains(name: str, pairs: list[tuple[float, float]]) -> Row:
    alone, both = zip(*pairs, strict=True)
    found = [100 * (after - before) for before, after in pairs]
    means = [percent(statistics.mean(each)) for each in (alone, both)]
    return [name, str(len(pairs)), *means, f"{min(found):+.1f}", f"{max(found):+.1f}"]


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
