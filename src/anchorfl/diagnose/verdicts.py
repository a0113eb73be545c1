"""What happened in a run, in plain sentences with their numbers.

A rule looks at one thing in a run's records and states what it saw, or nothing where it did not happen
or the evidence is missing. No rule names a cause that the numbers do not separate.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from anchorfl.diagnose import accuracy_rules, lambda_rules, training_rules
from anchorfl.diagnose.verdict import Verdict
from anchorfl.errors import UserError
from anchorfl.methods import METHODS
from anchorfl.registry import is_in_a_file
from anchorfl.runs import Record, Run

RULES: dict[str, Callable[[Run], Verdict | None]] = {
    "status": training_rules.not_finished,
    "refused": training_rules.refused,
    "undescribed": training_rules.undescribed,
    "non-finite": training_rules.non_finite,
    "diverged": training_rules.diverged,
    "runaway": lambda_rules.ran_away,
    "held": lambda_rules.held,
    "readout": accuracy_rules.readout_failed,
    "encoders": accuracy_rules.encoders_fell,
    "frozen": training_rules.still_encoders,
    "no-gain": accuracy_rules.fusion_gains_nothing,
    "better-fusion": accuracy_rules.better_fusion,
    "divided": lambda_rules.divided_gradient,
    "cancelled": lambda_rules.cancelled_annealing,
    "slow-sigma": lambda_rules.slow_sigma,
    "single-class": accuracy_rules.single_class,
}

BY_BALANCE = ("runaway", "held", "divided", "cancelled", "slow-sigma")
"""The rules that ask the run's balance what its lambda should have done."""
ALWAYS = ("base_loss", "clip_factor", "steps", "prototype_norm_seen")
LEARNED = ("align_loss", "anneal", "lambda_raw", "lambda_effective", "lambda_stationary")


def sound(run: Run, learned: bool) -> Run:
    """The run without the client records in which a number that rules look at is missing."""
    needed = (*ALWAYS, *LEARNED) if learned else ALWAYS

    def complete(record: Record) -> bool:
        return record["event"] != "client" or all(record.get(name) is not None for name in needed)

    return replace(run, metrics=[record for record in run.metrics if complete(record)])


def diagnose(run: Run) -> list[Verdict]:
    """What the rules say of a run, in their order; one sentence where all is well.

    A piece of advice per subject, the first verdict's, ends its sentence. Where training itself
    failed, nothing else is worth mending first.
    """
    rules, learned, unjudged = list(RULES), False, []
    try:
        learned = run.balance.learned
    except UserError as error:
        rules = [about for about in RULES if about not in BY_BALANCE]
        unjudged = [without_balance(run.method, error)]
    whole = sound(run, learned)
    found = []
    given: set[str] = set()
    for about in rules:
        verdict = RULES[about](whole)
        if verdict is None:
            continue
        text = verdict.text
        if verdict.advice and not given & {verdict.subject, "training"}:
            given.add(verdict.subject)
            text = f"{text} {verdict.advice}"
        found.append(replace(verdict, about=about, text=text, advice=""))
    found += unjudged
    if any(verdict.problem for verdict in found):
        return found
    well = "No problem shows in these records."
    return [Verdict(well, problem=False, about="well"), *found]


def without_balance(method: str, error: UserError) -> Verdict:
    """That the rules which ask the run's balance keep silent, and why."""
    known = method in METHODS.names()
    reason, judged = (
        f"cannot be built here ({error})" if known else "is not installed here",
        "not judged",
    )
    if is_in_a_file(method):
        reason, judged = "is code", "judged only with --trust"
    text = f"Method '{method}' {reason}: what its lambda should have done is {judged}."
    return Verdict(text, problem=False, about="method")
