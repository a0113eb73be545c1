"""Every picture of README and docs: make docs-images.

python -m benchmarks.pictures                   into docs/images
python -m benchmarks.pictures FOLDER [ROUNDS]   elsewhere, the demo's of so few rounds
"""

from __future__ import annotations

import statistics
import sys
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
from benchmarks.run_pictures import pictures_of_the_demo
from benchmarks.tables.figures import KINDS, lines, run
from benchmarks.tables.starts import CLIENTS, by_clients, pretrained, started

from anchorfl.report.figures import Quantities
from anchorfl.runs import percent

IMAGES = Path(__file__).parents[1] / "docs" / "images"
INK, PALE, WARM, COOL = "#1f2933", "#e4e7eb", "#b44d12", "#2b6cb0"
SITES = {"north": "cats, dogs", "south": "dogs, deer", "west": "ships"}


def box(axes: plt.Axes, x: float, y: float, title: str, text: str, colour: str) -> None:
    frame = mpl.patches.FancyBboxPatch(
        (x - 0.95, y - 0.36), 1.9, 0.72, boxstyle="round,pad=0.04", fc="white", ec=colour, lw=1.6
    )
    axes.add_patch(frame)
    axes.text(x, y + 0.12, title, ha="center", va="center", color=colour, weight="bold", size=11)
    axes.text(x, y - 0.16, text, ha="center", va="center", color=INK, size=8.5)


def arrow(axes: plt.Axes, start: tuple[float, float], end: tuple[float, float], colour: str) -> None:
    style = {"arrowstyle": "-|>", "color": colour, "lw": 1.6, "shrinkA": 2, "shrinkB": 2}
    axes.annotate("", xy=end, xytext=start, arrowprops=style)


def flow() -> plt.Figure:
    """Sites, one upload each, one predictor."""
    figure, axes = plt.subplots(figsize=(9, 3.1))
    for y, (name, classes) in zip((2.2, 1.1, 0.0), SITES.items(), strict=True):
        box(axes, 1.0, y, f"site {name}", f"images of {classes}", COOL)
        arrow(axes, (1.95, y), (4.15, 1.1 + (y - 1.1) * 0.25), COOL)
    axes.text(3.4, 2.42, "one upload each", ha="center", color=COOL, size=9.5)
    axes.text(3.4, 2.18, "encoder, class means, sums", ha="center", color=INK, size=8)
    box(axes, 5.1, 1.1, "server", "admits, fuses", WARM)
    arrow(axes, (6.05, 1.1), (7.0, 1.1), WARM)
    box(axes, 8.0, 1.1, "one predictor", "knows all classes", WARM)
    axes.text(1.0, -0.62, "images stay; each site trains alone, once", ha="center", color=INK, size=8.5)
    axes.set(xlim=(-0.1, 9.1), ylim=(-0.75, 2.75))
    axes.axis("off")
    return figure


def starts() -> plt.Figure:
    """What a common start adds, from records: CIFAR-10, alpha 0.05, five clients, seed 1."""
    kinds = {"scratch-cifar10-k5-seed1": (-0.19, PALE), "cifar10-k5-seed1": (0.19, WARM)}
    rules = {
        "class means": "class-mean",
        "nobody trains": "sketch-lda",
        "one exchange": "sketch-guided",
        "two exchanges": "joint-sketch-ridge",
    }
    figure, axes = plt.subplots(figsize=(9, 3.2))
    for name, (shift, colour) in kinds.items():
        shares = run(f"start/{name}").summary.final_accuracy
        for place, rule in enumerate(rules.values()):
            height = 100 * shares[rule]
            axes.bar(place + shift, height, 0.36, color=colour, edgecolor=INK, linewidth=0.6)
            axes.text(place + shift, height + 1, percent(shares[rule]), ha="center", size=9, color=INK)
    axes.set_xticks(range(len(rules)), list(rules))
    axes.set(ylim=(0, 100), ylabel="test accuracy, %")
    title = "CIFAR-10, five clients, alpha 0.05, seed 1: from scratch (pale) and from a common start"
    axes.set_title(title, fontsize=11)
    axes.spines[["top", "right"]].set_visible(False)
    return figure


def explosion() -> plt.Figure:
    """A lambda that runs away, the accuracy with it, and the cure: SVHN of diary 002, from records."""
    forms = {
        "v12": ("V12", COOL),
        "v12-batch": ("V12, classes of the batch", INK),
        "v12-gamma": ("V12-gamma", WARM),
    }
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.2), layout="constrained")
    for name, (label, colour) in forms.items():
        found = run(f"study/002/{name}")
        largest: dict[int, float] = {}
        for records in found.clients.values():
            for each in records:
                largest[each["round"]] = max(largest.get(each["round"], 0.0), each["lambda_raw"])
        left.plot(list(largest), list(largest.values()), color=colour, label=label)
        points = found.evaluations
        shares = [100 * point["accuracy"]["feature-mean"] for point in points]
        right.plot([point["round"] for point in points], shares, color=colour, label=label)
    left.set(yscale="log", xlabel="round", title="largest lambda of any client")
    right.set(xlabel="round", title="feature-mean, test accuracy, %")
    left.yaxis.set_major_formatter(Quantities())
    left.legend(fontsize=8, frameon=False)
    figure.suptitle("SVHN, five clients, alpha 0.05", size=11)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    return figure


def against_clients() -> plt.Figure:
    """Accuracy against the number of sites, from records."""
    figure, axes = plt.subplots(figsize=(9, 3.6))
    kinds = {"start": ("common start", WARM), "scratch": ("from scratch", COOL)}
    rules = {
        "joint-sketch-ridge": ("two exchanges", "--"),
        "sketch-guided": ("one exchange", "-"),
        "sketch-lda": ("sums alone", ":"),
    }
    for kind, (name, colour) in kinds.items():
        for rule, (exchange, stroke) in rules.items():
            found = by_clients(kind, rule)
            values = [100 * share for share in found.values()]
            label = f"{name}, {exchange}"
            axes.plot(list(found), values, stroke, color=colour, marker="o", ms=4, label=label)
    axes.axhline(100 * pretrained(), color=INK, lw=1, ls="-.", label="ImageNet network, sums alone")
    axes.set_xscale("log")
    axes.set_xticks(CLIENTS, [str(each) for each in CLIENTS])
    axes.minorticks_off()
    axes.yaxis.set_major_locator(mpl.ticker.MultipleLocator(5))
    axes.set(xlabel="sites", ylabel="test accuracy, %")
    axes.set_title("CIFAR-10, alpha 0.1, 20 epochs: accuracy against the number of sites")
    axes.legend(fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    return figure


def against_bytes() -> plt.Figure:
    """Accuracy against what a client sends, from records: sums in 8 bits, of the sketch in 32."""
    kinds = {
        "none": ("sketch", "fp32", COOL),
        "start": ("synthetic pictures", "fp8", WARM),
        "imagenet": ("ImageNet network", "fp8", INK),
    }
    trained = {"sketch-guided": ("one exchange", "s"), "joint-sketch-ridge": ("two", "D")}
    figure, both = plt.subplots(1, 2, figsize=(10.5, 3.6), layout="constrained")
    for axes, data in zip(both, ("cifar10", "cifar100"), strict=True):
        known = [x for x in lines("widths.jsonl") if x["data"] == data]
        for start, (name, precision, colour) in kinds.items():
            own = [x for x in known if (x["start"], x["sums"]) == (start, precision)]
            points = sorted((x["MB"], 100 * x["sketch-lda test"]) for x in own)
            label = f"{name}, nobody trains"
            axes.plot(*zip(*points, strict=True), color=colour, marker="o", ms=4, label=label)
        ends = started(f"{data}-k5")
        for rule, (exchanges, mark) in trained.items():
            size = (ends[0].fusion_bytes or {})[rule] / 1e6
            share = 100 * statistics.mean(end.final_accuracy[rule] for end in ends)
            axes.plot(size, share, mark, color=WARM, ms=7, label=f"synthetic pictures, {exchanges}")
        axes.set(xscale="log", xlabel="MB up per client", title=KINDS[data])
        axes.set(ylabel="test accuracy, %")
        axes.xaxis.set_major_formatter(Quantities())
        axes.spines[["top", "right"]].set_visible(False)
    both[1].legend(fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)
    return figure


DRAWN = {
    "flow.png": flow,
    "start.png": starts,
    "clients.png": against_clients,
    "bytes.png": against_bytes,
    "explosion.png": explosion,
}


def main(folder: str = str(IMAGES), rounds: str | None = None) -> None:
    mpl.use("Agg")
    images = Path(folder)
    images.mkdir(parents=True, exist_ok=True)
    for name, draw in DRAWN.items():
        figure = draw()
        figure.savefig(images / name, dpi=150, bbox_inches="tight", facecolor="white")
        plt.close(figure)
    pictures_of_the_demo(images, rounds)


if __name__ == "__main__":
    main(*sys.argv[1:])
