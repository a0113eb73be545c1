"""The terms on a page, explained where they are hovered over and at its foot."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Sequence
from contextlib import suppress

from anchorfl.errors import UserError
from anchorfl.methods import METHODS
from anchorfl.runs import Run

GENERAL = {
    "client": "A site that is simulated.",
    "site": "Who takes part: it trains on its own images alone and uploads what it learned.",
    "round": "A turn of training at every site. In a one-shot method nothing is sent back after it.",
    "fusion": "The rule by which the server makes one model of all uploads.",
    "primary": "The fusion named first in the settings: its model is kept, and predicts.",
    "predictor": "The model that a run leaves: it is given an image and tells its class.",
    "best single client": "The best test accuracy that any client has with its own model alone.",
    "worst class": "The class whose images are recognised least often.",
    "calibration error": "How far stated probabilities are from how often they are right, on average.",
    "effective classes": "How many classes a client holds, where a class with few images counts for"
    " less than one: 2^H, H the entropy of its labels in bits.",
    "base loss B": "How far a client is from knowing its own images and labels.",
    "prototype": "What a class looks like to a client: one learned vector, near its images' features.",
    "encoder": "The network that makes features, a vector, of an image.",
    "clip factor": "What is left of a step that was too long: 1 where it was not shortened.",
    "confusion": "How many images of a class (a row) were taken for which (a column).",
}
OF_LAMBDA = {
    "align loss A": "How far a client is from what all clients share, such as one vector per class.",
    "lambda": "How much A counts beside B: a client minimises B + lambda A.",
    "raw lambda": "Lambda as it was set or learned, before it is faded out over the run.",
    "effective lambda": "The weight that A really has where the network learns.",
    "stationary lambda": "Where a learned lambda would come to rest if B and A stayed as they are.",
    "largest lambda": "The highest lambda of any client at the end of any round: the raw one, where"
    " the method has one.",
    "sigma squared": "Two learned numbers whose ratio is raw lambda: local (of B, sl2) over align (of"
    " A, sa2).",
}


COMPARED = {
    "standard deviation": "Over seeds, of a sample: divided by their number less one.",
    "difference": "A method's accuracy minus the baseline's, seed by seed, in points.",
    "p": "The share of all ways to sign the n differences whose sum is at least as far from 0 as"
    " theirs; never below 2 / 2^n.",
    "n": "How many seeds both have.",
}


def glossary(runs: Sequence[Run], baseline: bool = False) -> list[tuple[str, str]]:
    """Terms, then methods and fusions; the page lists those that it uses."""
    of_lambda = OF_LAMBDA if any(run.largest_lambda is not None for run in runs) else {}
    terms = GENERAL | of_lambda | (COMPARED if baseline else {})
    return [*terms.items(), *method_lines(runs), *fusion_lines(runs)]


def method_lines(runs: Sequence[Run]) -> list[tuple[str, str]]:
    """Nothing of a method that is not installed here."""
    lines = []
    for name in dict.fromkeys(run.method for run in runs):
        with suppress(UserError):
            summary = METHODS.get(name).summary
            lines.append((name, f"{summary[:1].upper()}{summary[1:]}."))
    return lines


def fusion_lines(runs: Sequence[Run]) -> list[tuple[str, str]]:
    """Of the fusions that are imported already: importing them for a line would take seconds."""
    if "anchorfl.fusion" not in sys.modules:
        return []
    from anchorfl.fusion import FUSIONS

    named = dict.fromkeys(name for run in runs for name in run.summary.final_accuracy or {})
    lines = [(name, first_line(FUSIONS.get(name))) for name in named if name in FUSIONS]
    return [(name, line) for name, line in lines if line]


def first_line(thing: object) -> str:
    return (inspect.getdoc(thing) or "").partition("\n")[0]
