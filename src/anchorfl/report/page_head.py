"""The head of a run's page: its accuracy, then what it cost."""

from __future__ import annotations

from typing import Any

from anchorfl.report.colours import NEUTRAL, fusion_colour
from anchorfl.report.numbers import megabytes, percent, quantity
from anchorfl.report.page_tables import recalls
from anchorfl.runs import Run, Summary


def accuracy_head(summary: Summary) -> dict[str, Any] | None:
    """The primary fusion's accuracy, its worst class, and beside them what else was evaluated."""
    accuracies = summary.final_accuracy
    if not accuracies:
        return None
    primary, *others = accuracies
    images = summary.test_images()
    tested = "" if images is None else f", {images:,} {summary.measured_on()}"
    what = "accuracy" if summary.site_accuracy is not None else "test accuracy"
    beside = [bar(name, accuracies[name], fusion_colour(name)) for name in others]
    alone = summary.best_client()
    if alone is not None:
        beside.append(bar("best single client", alone, NEUTRAL))
    return {
        **bar(primary, accuracies[primary], fusion_colour(primary)),
        "words": f"{what} of {primary} (makes the predictor){tested}",
        "worst": worst_class(summary, primary),
        "others": beside,
    }


def bar(name: str, share: float, colour: str) -> dict[str, Any]:
    return {"name": name, "value": f"{percent(share)} %", "share": share, "colour": colour}


def worst_class(summary: Summary, fusion: str) -> str | None:
    """The class of the smallest recall, by name, where the run holds what was taken for what."""
    named = zip(recalls(summary).get(fusion, []), summary.class_names or [], strict=False)
    tested = [(share, name) for share, name in named if share is not None]
    if not tested:
        return None
    share, name = min(tested, key=lambda pair: pair[0])
    return f"worst class: {name}, {percent(share)} %"


def costs(run: Run) -> list[tuple[str, str]]:
    """How the run ended, what its lambda reached, and what it took."""
    summary = run.summary
    numbers = [("status", summary.status)]
    if run.largest_lambda is not None:
        numbers.append(("largest lambda", quantity(run.largest_lambda)))
    numbers += primary_costs(summary)
    sizes = [size for size in summary.upload_bytes if size]
    if sizes:
        numbers.append(("largest upload", megabytes(max(sizes))))
    if summary.samples_per_second and summary.seconds:
        numbers.append(("whole run", f"{quantity(summary.seconds)} s"))
        numbers.append(("training samples/s", quantity(summary.samples_per_second)))
    return numbers


def primary_costs(summary: Summary) -> list[tuple[str, str]]:
    """Of the fusion that makes the predictor; runs of an earlier version do not hold them."""
    name = next(iter(summary.prediction_ms or {}), None)
    if name is None or not summary.prediction_ms or not summary.prediction_flops:
        return []
    milliseconds, flops = summary.prediction_ms[name], summary.prediction_flops[name]
    numbers = [(f"{name}, per image ({quantity(flops / 1e6)} MFLOP)", f"{quantity(milliseconds)} ms")]
    errors = summary.calibration_error or {}
    if name in errors:
        numbers.insert(0, (f"{name}, calibration error", f"{percent(errors[name])} %"))
    return numbers
