"""Verdicts on accuracy: whether the rule failed or the encoders did, and what would do better."""

from __future__ import annotations

from collections.abc import Callable
from statistics import mean

from anchorfl.diagnose.verdict import Verdict, differ, listed
from anchorfl.errors import UserError
from anchorfl.registry import FUSIONS
from anchorfl.runs import Run, percent, quantity

FALLEN = 0.05
STEADY = 0.02
ENCODERS_ALONE = frozenset({"features"})
FAVOURED = 2.0


def courses(run: Run) -> dict[str, list[float]]:
    """Accuracy at every evaluation, of the fusions that were evaluated often enough to judge."""
    points = [record["accuracy"] for record in run.evaluations]
    if len(points) < 3:
        return {}
    always = [name for name in points[-1] if all(name in point for point in points)]
    return {name: [point[name] for point in points] for name in always}


def first_that(run: Run, accept: Callable[[frozenset[str]], bool]) -> str | None:
    """The run's first fusion of which `accept` is true for what it reads, if its code is here."""
    for name in courses(run):
        try:
            if accept(FUSIONS.get(name).reads):
                return name
        except UserError:
            continue
    return None


def two_courses(run: Run) -> tuple[str, list[float], str, list[float]] | None:
    """A fusion that scores on prototypes, and one that reads the same encoders and no prototype.

    Only where some fusion fell: what a fusion reads is a question to its code, which takes seconds to
    import.
    """
    found = courses(run)
    if not any(fell(run, values, values.index(max(values))) for values in found.values()):
        return None
    rule = first_that(run, lambda reads: "prototypes" in reads)
    witness = first_that(run, lambda reads: reads == ENCODERS_ALONE)
    if rule is None or witness is None:
        return None
    return rule, found[rule], witness, found[witness]


def fell(run: Run, values: list[float], top: int) -> bool:
    """By points that count, and by more than the test images leave to chance."""
    fall = values[top] - values[-1]
    return fall >= FALLEN and differ(run, values[top], values[-1])


def readout_failed(run: Run) -> Verdict | None:
    """One reading of the same clients fell, the other did not: the encoders are not at fault."""
    found = two_courses(run)
    if found is None or not run.clients:
        return None
    rule, read, witness, free = found
    top = read.index(max(read))
    other = free[-1] - free[top]
    if not fell(run, read, top) or other < -STEADY:
        return None
    norms = [
        (records[-1]["prototype_norm_seen"], records[-1]["prototype_norm_unseen"])
        for records in run.clients.values()
    ]
    seen = mean(norm for norm, _ in norms)
    unseen = [norm for _, norm in norms if norm is not None]
    beside = f" and {quantity(mean(unseen))} for the others" if unseen else ""
    return Verdict(
        "readout",
        f"{rule} fell {percent(read[top] - read[-1])} points from round"
        f" {run.evaluations[top]['round']} to the end while {witness} moved by {100 * other:+.1f}: the"
        f" readout failed, the encoders did not get worse. The mean norm of a prototype is"
        f" {quantity(seen)} for the classes a client holds{beside}.",
        problem=rule == primary(run),
    )


def encoders_fell(run: Run) -> Verdict | None:
    """Both readings fell: the encoders themselves got worse."""
    found = two_courses(run)
    if found is None:
        return None
    rule, read, witness, free = found
    top = read.index(max(read))
    if not fell(run, read, top) or not fell(run, free, top):
        return None
    return Verdict(
        "encoders",
        f"Both readings fell from round {run.evaluations[top]['round']} to the end: {rule} by"
        f" {percent(read[top] - read[-1])} points and {witness}, which reads no prototype, by"
        f" {percent(free[top] - free[-1])}. The encoders got worse too.",
    )


def primary(run: Run) -> str:
    """The fusion that makes the predictor."""
    return str(next(iter(run.evaluations[-1]["accuracy"])))


def fusion_gains_nothing(run: Run) -> Verdict | None:
    """The primary fusion ends below what one client does alone."""
    if not run.evaluations:
        return None
    last = run.evaluations[-1]
    fused = last["accuracy"][primary(run)]
    alone = max((value for value in last["local_accuracy"] if value is not None), default=0.0)
    if fused >= alone or not differ(run, fused, alone):
        return None
    return Verdict(
        "no-gain",
        f"{primary(run)} ends at {percent(fused)} %, below the best single client's"
        f" {percent(alone)} %.",
    )


def better_fusion(run: Run) -> Verdict | None:
    """Another rule on the same uploads ends above the primary one."""
    if not run.evaluations:
        return None
    found = run.evaluations[-1]["accuracy"]
    own = found[primary(run)]
    higher = [name for name in found if found[name] > own and differ(run, found[name], own)]
    best = max(filter(makes_predictor, higher), key=lambda name: found[name], default=None)
    if best is None:
        return None
    images = run.summary.test_images()
    beside = "" if images is None else f" on {images:,} test images"
    return Verdict(
        "better-fusion",
        f"On the same uploads {best} ends at {percent(found[best])} %, {primary(run)} at"
        f" {percent(own)} %{beside}.",
        problem=False,
        subject="fusion",
        advice=f"Use fusion={best}.",
    )


def makes_predictor(name: str) -> bool:
    try:
        return not FUSIONS.get(name).transductive
    except UserError:
        return False


def single_class(run: Run) -> Verdict | None:
    counts = dict(enumerate(run.summary.label_table or []))
    single = [client for client, row in counts.items() if sum(count > 0 for count in row) == 1]
    if not single:
        return None
    verb = "holds" if len(single) == 1 else "hold"
    text = f"{listed(single).capitalize()} {verb} one class."
    favours = favoured_class(run, {counts[client].index(max(counts[client])) for client in single})
    matters = bool(run.evaluations) and primary(run) in favours
    return Verdict("single-class", text + "".join(favours.values()), problem=matters, subject="fusion")


def favoured_class(run: Run, classes: set[int]) -> dict[str, str]:
    """By rule that asks owners: that it takes far more images for a class than there are of it.

    An encoder that saw one class finds it everywhere.
    """
    found = {}
    for fusion in ("class-mean", "class-weighted"):
        matrix = (run.summary.confusion or {}).get(fusion, [])
        total = sum(map(sum, matrix))
        for label in sorted(classes) if total else ():
            given, there = sum(row[label] for row in matrix) / total, sum(matrix[label]) / total
            if given > FAVOURED * there:
                name = (run.summary.class_names or {label: label})[label]
                shares = f"{percent(given)} % of all images for class {name}, where {percent(there)} %"
                found[fusion] = f" {fusion} takes {shares} are of it."
                break
    return found
