"""The tables of docs/fusion.md on sums: their bytes, how strictly they are fitted, their weight."""

from __future__ import annotations

import statistics
from typing import Any

from benchmarks.tables.figures import KINDS, Row, lines, run, table
from benchmarks.tables.starts import started

from anchorfl.runs import percent

NETWORKS = {"none": "none: the sketch", "start": "synthetic pictures", "imagenet": "ImageNet"}
DATA = ("cifar10", "cifar100", "svhn")


@table("widths")
def widths() -> list[Row]:
    """What more numbers and bits buy, where nobody trains: `sketch-lda`; tested by default bits."""
    found = lines("widths.jsonl")
    rows = [["network", "numbers", "MB per client"]]
    rows[0] += [f"{KINDS[data]}, {which}" for data in DATA for which in ("held out", "test")]
    for start, name in NETWORKS.items():
        for width in sorted({x["width"] for x in found if x["start"] == start}):
            own = [x for x in found if (x["start"], x["width"]) == (start, width)]
            sizes = [f"{x['MB']:.1f}" for x in own if x["data"] == DATA[0]]
            cells = [cell for data in DATA for cell in held_out_and_test(start, data, own)]
            rows.append([name, f"{width:,}", ", ".join(sizes), *cells])
    return rows


def held_out_and_test(start: str, data: str, own: list[dict[str, Any]]) -> tuple[str, str]:
    """By precision, and by the default: 32 bits of the sketch alone, else 8."""
    found = [x for x in own if x["data"] == data]
    if not found:
        return "not measured", "not measured"
    default = next(x for x in found if x["sums"] == ("fp32" if start == "none" else "fp8"))
    held_out = ", ".join(percent(x["sketch-lda validation"]) for x in found)
    return held_out, percent(default["sketch-lda test"])


@table("sums")
def sums() -> list[Row]:
    """The same trained encoders, their sums in 32 bits and in 8."""
    rows = [["data", "sums", "one exchange", "MB up", "two exchanges", "MB up"]]
    for data in ("cifar10", "cifar100"):
        for kind, record in (("fp32", f"exact-{data}"), ("fp8", f"crop06-{data}-k5-seed1")):
            end = run(f"start/{record}").summary
            cells = []
            for rule in ("sketch-guided", "joint-sketch-ridge"):
                size = f"{(end.fusion_bytes or {})[rule] / 1e6:.0f}"
                cells += [percent(end.final_accuracy[rule]), size]
            rows.append([KINDS[data], kind, *cells])
    return rows


SMALL = {
    "digits, five clients, 20 epochs": ("digits", 5, 20),
    "Fashion-MNIST, ten clients, `small-cnn`, 20 epochs": ("fashion-mnist", 10, 20),
    "CIFAR-10, ten clients, `small-cnn`, 2 epochs": ("cifar10", 10, 2),
    "CIFAR-10, ten clients, `small-cnn`, 20 epochs": ("cifar10", 10, 20),
}
"""Runs of sweep-guided.yaml under today's rules: data, clients, rounds in trust.jsonl."""
FROM_A_START = {
    "CIFAR-10, five clients, from a start": "cifar10-k5",
    "CIFAR-10, ten clients, from a start": "cifar10-k10",
    "CIFAR-100, five clients, from a start": "cifar100-k5",
    "SVHN, five clients, from a start": "svhn-k5",
}
"""Runs of a ResNet-18 under the same rules, their records under `start/`."""
NUMBERS = {5: "five", 10: "ten"}


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
    kinds = ("data.name", "model.name", "partition.clients", "train.rounds", "start")
    for kind in dict.fromkeys(tuple(x.get(key) for key in kinds) for x in found):
        own = [x for x in found if tuple(x.get(key) for key in kinds) == kind]
        data, network, sites, epochs, start = kind
        network += " from a start" if start else ""
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
    for x in lines("start-small.jsonl"):
        if x["method"] == "v4" and x["data"] != "digits":
            sites, how = NUMBERS[x["sites"]], ", from a small start" if x["start"] else ""
            name = f"{KINDS[x['data']]}, {sites} clients, `small-cnn`, {x['epochs']} epochs{how}"
            rows.append(gains(name, [(x["test"]["sketch-lda"], x["test"]["sketch-guided"])]))
    for name, prefix in FROM_A_START.items():
        own = [end.final_accuracy for end in started(prefix)]
        rows.append(gains(name, [(x["sketch-lda"], x["sketch-guided"]) for x in own]))
    return rows


def same(found: dict[str, Any], kind: tuple[str, int, int]) -> bool:
    return kind == (found["data.name"], found["partition.clients"], found["train.rounds"])


def gains(name: str, pairs: list[tuple[float, float]]) -> Row:
    alone, both = zip(*pairs, strict=True)
    found = [100 * (after - before) for before, after in pairs]
    means = [percent(statistics.mean(each)) for each in (alone, both)]
    return [name, str(len(pairs)), *means, f"{min(found):+.1f}", f"{max(found):+.1f}"]
