"""The terms on a page, explained where they are hovered over and at its foot."""

from __future__ import annotations

import inspect
from collections.abc import Sequence

from anchorfl.errors import UserError
from anchorfl.registry import FUSIONS, METHODS
from anchorfl.runs import Run

GENERAL = {
    "client": "A site: it trains on its own samples alone and uploads what it learned.",
    "round": "A turn of local training on every client. A one-shot method sends nothing back after it.",
    "fusion": "What the server makes of the uploads: one predictor of all classes.",
    "primary": "The fusion named first in the settings: it makes the run's predictor.",
    "best single client": "The highest test accuracy of any client's own model.",
    "worst class": "The class of which the smallest share of test images is recognised.",
    "calibration error": "How far stated probabilities are from the share of right answers: their mean"
    " gap over 15 bins of confidence, after temperature scaling.",
    "entropy": "H of a client's labels, in bits: 0 with one class, log2 C with all C classes equally.",
    "effective classes": "2^H: this many equally frequent classes have the entropy H of the client's.",
    "base loss B": "What a client minimises on its own labels, whatever the others do.",
    "prototype": "A learned point per class, which features of that class are drawn to.",
    "clip factor": "What clipping left of a step's gradient norm: 1 where nothing was clipped.",
}
OF_LAMBDA = {
    "align loss A": "How far a client is from what all clients align to, such as shared anchors.",
    "lambda": "The weight of A beside B: a client minimises B + lambda A.",
    "raw lambda": "Lambda as set or learned, sl2/sa2, before it is annealed.",
    "effective lambda": "The weight that A has in what the network's weights minimise.",
    "stationary lambda": "Where raw lambda would settle if B and A stayed as they are.",
    "largest lambda": "Of any client at the end of any round, raw where the method has it.",
    "sigma squared": "The learned variances sl2 (local, of B) and sa2 (align, of A).",
}


COMPARED = {
    "standard deviation": "Over seeds, of a sample: divided by their number less one.",
    "difference": "A method's accuracy minus the baseline's, seed by seed, in points.",
    "p": "The share of all ways to sign the n differences whose sum is at least as far from 0 as"
    " theirs; never below 2 / 2^n.",
    "n": "How many seeds both have.",
}
ON_COMPARISONS = (
    *("client", "round", "fusion", "primary"),
    *("base loss B", "align loss A", "lambda", "raw lambda", "effective lambda", "largest lambda"),
    *COMPARED,
)


def glossary(run: Run) -> list[tuple[str, str]]:
    """Terms and their meaning, those of lambda where there is one; then the method and its fusions."""
    return [*terms_of([run]).items(), *method_line(run.method), *fusion_lines([run])]


def comparison_glossary(runs: Sequence[Run], baseline: bool) -> list[tuple[str, str]]:
    """The same of several runs, and of their differences where they are held against a baseline."""
    terms = terms_of(runs) | (COMPARED if baseline else {})
    methods = dict.fromkeys(run.method for run in runs)
    return [
        *((term, terms[term]) for term in ON_COMPARISONS if term in terms),
        *(line for name in methods for line in method_line(name)),
        *fusion_lines(runs),
    ]


def terms_of(runs: Sequence[Run]) -> dict[str, str]:
    return GENERAL | (OF_LAMBDA if any(run.largest_lambda is not None for run in runs) else {})


def method_line(name: str) -> list[tuple[str, str]]:
    """Nothing where the method is not installed here."""
    try:
        return [(name, sentence(METHODS.get(name).summary))]
    except UserError:
        return []


def fusion_lines(runs: Sequence[Run]) -> list[tuple[str, str]]:
    """Of the fusions that are imported already: importing them for a line would take seconds."""
    named = dict.fromkeys(name for run in runs for name in run.summary.final_accuracy or {})
    names = [name for name in named if name in FUSIONS]
    lines = {name: (inspect.getdoc(FUSIONS.get(name)) or "").partition("\n")[0] for name in names}
    return [(name, line) for name, line in lines.items() if line]


def sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."
