"""What happened in a run, in plain sentences with their numbers.

A rule looks at one thing in a run's records and states what it saw, or nothing where it did not happen
or the evidence is missing. No rule names a cause that the numbers do not separate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from anchorfl.diagnose import accuracy_rules, lambda_rules, training_rules, upload_rules
from anchorfl.diagnose.verdict import Rule, Verdict
from anchorfl.errors import UserError
from anchorfl.registry import METHODS, is_in_a_file
from anchorfl.runs import Record, Run

RULES: dict[str, Rule] = {
    "status": training_rules.not_finished,
    "refused": upload_rules.refused,
    "undescribed": upload_rules.undescribed,
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
    """What the rules say of a run, in their order; one sentence where all is well."""
    rules, learned, unjudged = list(RULES), False, []
    try:
        learned = run.balance.learned
    except UserError as error:
        rules = [about for about in RULES if about not in BY_BALANCE]
        unjudged = [without_balance(run.method, error)]
    whole = sound(run, learned)
    found = [verdict for about in rules if (verdict := RULES[about](whole)) is not None]
    found = [*advised(found), *unjudged]
    if any(verdict.problem for verdict in found):
        return found
    return [Verdict("well", "No problem shows in these records.", problem=False), *found]


def without_balance(method: str, error: UserError) -> Verdict:
    """That the rules which ask the run's balance keep silent, and why."""
    if is_in_a_file(method):
        text = (
            f"Method '{method}' is code: what its lambda should have done is judged only with --trust."
        )
        return Verdict("method", text, problem=False)
    known = method in METHODS.names()
    reason = f"cannot be built here ({error})" if known else "is not installed here"
    text = f"Method '{method}' {reason}: what its lambda should have done is not judged."
    return Verdict("method", text, problem=False)


def advised(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """One piece of advice per subject, the first verdict's, at the end of its sentence.

    Where training itself failed, nothing else is worth mending first.
    """
    given: set[str] = set()
    found = []
    for verdict in verdicts:
        text = verdict.text
        if verdict.advice and not given & {verdict.subject, "training"}:
            given.add(verdict.subject)
            text = f"{text} {verdict.advice}"
        found.append(replace(verdict, text=text, advice=""))
    return found
