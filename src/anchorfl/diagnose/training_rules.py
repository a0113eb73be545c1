"""Verdicts on the run itself: whether it ended, diverged, left encoders behind, lacks an upload."""

from __future__ import annotations

import math
from statistics import mean

from anchorfl.diagnose.verdict import Verdict, listed
from anchorfl.runs import Run, percent, quantity

FROZEN = 0.1
CLIPPED = 0.5
DIVERGED = 10.0


def not_finished(run: Run) -> Verdict | None:
    if run.summary.status == "finished":
        return None
    status = run.summary.status if run.summary.ended else "is still going, or was killed"
    rounds = sum(record["event"] == "round" for record in run.metrics)
    return Verdict(f"The run {status}; {rounds} of {run.train.rounds} rounds are recorded.")


def non_finite(run: Run) -> Verdict | None:
    found = [record for record in run.warnings if record["kind"] == "non-finite"]
    if not found:
        return None
    clients = listed({record["client"] for record in found})
    return Verdict(
        f"Training diverged on {clients}, first in round {found[0]['round']}; who diverged stopped,"
        " with the weights of the round before.",
        subject="training",
        advice=f"Lower train.lr, which is {run.train.lr:g}.",
    )


def diverged(run: Run) -> Verdict | None:
    """B ends far above what guessing gives: ln C for each of three terms, ln 2b for the contrast."""
    if not run.summary.label_table:
        return None
    guess = 3 * math.log(len(run.summary.label_table[0])) + math.log(2 * run.train.batch)
    last = {client: records[-1]["base_loss"] for client, records in run.clients.items()}
    lost = {client: loss for client, loss in last.items() if loss > DIVERGED * guess}
    if not lost:
        return None
    return Verdict(
        f"Training diverged on {listed(lost)}: B ends at up to {quantity(max(lost.values()))}, where"
        f" guessing gives about {quantity(guess)}.",
        subject="training",
        advice=f"Lower train.lr, which is {run.train.lr:g}.",
    )


def still_encoders(run: Run) -> Verdict | None:
    """Under one clip norm the prototypes' gradient took the encoder's step."""
    still = {}
    for client, records in run.clients.items():
        last = records[-5:]
        found = [record.get("gradient_share_encoder") for record in last]
        shares = [share for share in found if share is not None]
        if len(shares) == 5:
            share = mean(shares)
            if share < FROZEN and mean(record["clip_factor"] for record in last) < CLIPPED:
                still[client] = share
    if not still or run.train.clip != "global":
        return None
    return Verdict(
        f"The encoders of {listed(still)} hardly move: in the last rounds at most"
        f" {percent(max(still.values()))} % of the squared gradient under the common clip norm is"
        " theirs.",
    )


def messages(run: Run, kind: str) -> list[str]:
    return [str(record["message"]) for record in run.warnings if record["kind"] == kind]


def refused(run: Run) -> Verdict | None:
    reasons = messages(run, "refused")
    if not reasons:
        return None
    verb = "1 file was" if len(reasons) == 1 else f"{len(reasons)} files were"
    return Verdict(f"{verb} refused; the model is made of the others: {'; '.join(reasons)}.")


def undescribed(run: Run) -> Verdict | None:
    found = messages(run, "undescribed-classes")
    if not found:
        return None
    text = f"{found[0][:1].upper()}{found[0][1:]}."
    return Verdict(text, subject="classes", advice="Add a site that holds enough of them.")
