"""Verdicts on accuracy: whether the rule failed or the encoders did, and what would do better."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from statistics import mean
from typing import TYPE_CHECKING

from anchorfl.diagnose.verdict import Verdict, differ, listed
from anchorfl.errors import UserError
from anchorfl.runs import Run, percent, quantity

if TYPE_CHECKING:
    from anchorfl.fusion import Fusion

FALLEN = 0.05
STEADY = 0.02
ENCODERS_ALONE = frozenset({"features"})
FAVOURED = 2.0


@dataclass(frozen=True)
class Fall:
    """A rule that scores on prototypes fell from its best evaluation to the last.

    `witness` reads the same encoders and no prototype. Accuracies are of that evaluation and the last.
    """

    rule: str
    witness: str
    since: int
    read: tuple[float, float]
    free: tuple[float, float]


def fall_of(run: Run) -> Fall | None:
    """Only fusions that were evaluated often enough to judge, and whose code is here."""
    points = [record["accuracy"] for record in run.evaluations]
    if len(points) < 3:
        return None
    always = [name for name in points[-1] if all(name in point for point in points)]
    courses = {name: [point[name] for point in points] for name in always}
    if not any(fell(run, max(values), values[-1]) for values in courses.values()):
        return None  # what a fusion reads is a question to its code, which takes seconds to import
    reads = {}
    for name in courses:
        with suppress(UserError):
            reads[name] = kind_of(name).reads
    rule = next((name for name, parts in reads.items() if "prototypes" in parts), None)
    witness = next((name for name, parts in reads.items() if parts == ENCODERS_ALONE), None)
    if rule is None or witness is None:
        return None
    top = courses[rule].index(max(courses[rule]))
    read, free = ((courses[name][top], courses[name][-1]) for name in (rule, witness))
    return Fall(rule, witness, run.evaluations[top]["round"], read, free) if fell(run, *read) else None


def kind_of(fusion: str) -> type[Fusion]:
    """Imported when a rule asks for it: a site's own records need no fusion."""
    from anchorfl.fusion import FUSIONS

    return FUSIONS.get(fusion)


def fell(run: Run, before: float, after: float) -> bool:
    """By points that count, and by more than the test images leave to chance."""
    return before - after >= FALLEN and differ(run, before, after)


def readout_failed(run: Run) -> Verdict | None:
    """One reading of the same clients fell, the other did not: the encoders are not at fault."""
    fall = fall_of(run)
    if fall is None or not run.clients:
        return None
    other = fall.free[1] - fall.free[0]
    if other < -STEADY:
        return None
    last = [records[-1] for records in run.clients.values()]
    seen = mean(record["prototype_norm_seen"] for record in last)
    norms = [record["prototype_norm_unseen"] for record in last]
    unseen = [norm for norm in norms if norm is not None]
    beside = f" and {quantity(mean(unseen))} for the others" if unseen else ""
    return Verdict(
        f"{fall.rule} fell {percent(fall.read[0] - fall.read[1])} points from round {fall.since}"
        f" to the end while {fall.witness} moved by {100 * other:+.1f}: the"
        f" readout failed, the encoders did not get worse. The mean norm of a prototype is"
        f" {quantity(seen)} for the classes a client holds{beside}.",
        problem=fall.rule == primary(run),
    )


def encoders_fell(run: Run) -> Verdict | None:
    """Both readings fell: the encoders themselves got worse."""
    fall = fall_of(run)
    if fall is None or not fell(run, *fall.free):
        return None
    return Verdict(
        f"Both readings fell from round {fall.since} to the end: {fall.rule} by"
        f" {percent(fall.read[0] - fall.read[1])} points and {fall.witness}, which reads no prototype,"
        f" by {percent(fall.free[0] - fall.free[1])}. The encoders got worse too.",
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
        f"{primary(run)} ends at {percent(fused)} %, below the best single client's"
        f" {percent(alone)} %.",
    )


def better_fusion(run: Run) -> Verdict | None:
    """Another rule on the same uploads ends above the primary one."""
    if not run.evaluations:
        return None
    found = run.evaluations[-1]["accuracy"]
    own = found[primary(run)]
    higher = {}
    for name in found:
        with suppress(UserError):
            if found[name] > own and differ(run, found[name], own) and not kind_of(name).transductive:
                higher[name] = found[name]
    best = max(higher, key=higher.__getitem__, default=None)
    if best is None:
        return None
    images = run.summary.test_images()
    beside = "" if images is None else f" on {images:,} test images"
    return Verdict(
        f"On the same uploads {best} ends at {percent(found[best])} %, {primary(run)} at"
        f" {percent(own)} %{beside}.",
        problem=False,
        subject="fusion",
        advice=f"Use fusion={best}.",
    )


def single_class(run: Run) -> Verdict | None:
    counts = dict(enumerate(run.summary.label_table or []))
    single = [client for client, row in counts.items() if sum(count > 0 for count in row) == 1]
    if not single:
        return None
    verb = "holds" if len(single) == 1 else "hold"
    text = f"{listed(single).capitalize()} {verb} one class."
    favours = favoured_class(run, {counts[client].index(max(counts[client])) for client in single})
    matters = bool(run.evaluations) and primary(run) in favours
    return Verdict(text + "".join(favours.values()), problem=matters, subject="fusion")


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
