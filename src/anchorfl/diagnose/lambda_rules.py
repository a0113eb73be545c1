"""Verdicts on lambda: where it went, and why."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean

from anchorfl.diagnose.guard import replay
from anchorfl.diagnose.verdict import Verdict, height, listed
from anchorfl.objective import EXPLODED
from anchorfl.runs import Record, Run, counted, percent, quantity

CANCELLED = 0.8
DIVIDED = 0.25
LAGGING = 0.5
V7 = 5.0


def ran_away(run: Run) -> Verdict | None:
    """Lambda exploded or was about to: who, since when, and how much of it was A and how much s."""
    alarms = replay(run)
    if not alarms:
        return None
    exploded = [client for client in alarms if height(run.clients[client]) >= EXPLODED]
    who = exploded or list(alarms)
    worst = max(who, key=lambda client: highest(run.clients[client])["lambda_raw"])
    records, since = run.clients[worst], alarms[worst].round
    first, peak = records[0], highest(records)
    onset = next(record for record in records if record["round"] == since)
    by_align = max(first["align_loss"], 1e-30) / max(onset["align_loss"], 1e-30)
    by_anneal = first["anneal"] / max(onset["anneal"], 1e-30)
    gamma = max(run.clients[client][0]["align_loss"] for client in who) / (2 * EXPLODED)
    how = "ran away" if exploded else "was about to run away"
    if run.balance.guard == "cap":
        how = "would have run away, and was held at ten times B/A of round 0,"
    return Verdict(
        f"Lambda {how} on {listed(who)}, from round {min(alarms[each].round for each in who)} on."
        f" When it showed on client {worst}, in round {since}, A had fallen {quantity(by_align)}-fold,"
        f" {from_to(first, onset, 'align_loss')}, and s {quantity(by_anneal)}-fold,"
        f" {from_to(first, onset, 'anneal')}; its stationary lambda was"
        f" {quantity(onset['lambda_stationary'])}. The raw one reached {quantity(peak['lambda_raw'])}"
        f" in round {peak['round']}.",
        subject="lambda",
        advice=run.balance.cure(gamma),
    )


def highest(records: Sequence[Record]) -> Record:
    return max(records, key=lambda record: record["lambda_raw"] or 0.0)


def from_to(first: Record, last: Record, name: str) -> str:
    return f"from {quantity(first[name])} to {quantity(last[name])}"


def held(run: Run) -> Verdict | None:
    """A learned lambda that did not run away."""
    if not run.balance.learned or not run.clients or replay(run):
        return None
    top = max(height(records) for records in run.clients.values())
    return Verdict(
        f"Lambda did not run away: on every client the effective one reached at most {quantity(top)}"
        " times B/A of round 0.",
        problem=False,
    )


def cancelled_annealing(run: Run) -> Verdict | None:
    """Diary 000: raw lambda rises as s falls, so that the product hardly moves."""
    cancelled, alarms = {}, replay(run)
    for client, records in run.clients.items():
        late = [record for record in records if (record["anneal"] or 1.0) <= 0.5]
        if late and late[0]["lambda_raw"] and late[0]["lambda_effective"] and client not in alarms:
            kept = late[-1]["lambda_effective"] / late[0]["lambda_effective"]
            if late[-1]["anneal"] <= 0.2 * late[0]["anneal"] and kept >= CANCELLED:
                cancelled[client] = (late[0], late[-1], kept)
    if not cancelled:
        return None
    client = min(cancelled)
    first, last, kept = cancelled[client]
    return Verdict(
        f"Annealing was cancelled on {listed(cancelled)}: while s fell"
        f" {from_to(first, last, 'anneal')}, client {client}'s raw lambda rose"
        f" {from_to(first, last, 'lambda_raw')} and the effective one ended at"
        f" {percent(kept)} % of what it was.",
        subject="lambda",
        advice="v12-gamma lets it fall.",
    )


def slow_sigma(run: Run) -> Verdict | None:
    """A sigma that made too few steps to get where its losses would lead it."""
    slow, alarms = {}, replay(run)
    for client, records in run.clients.items():
        last = records[-1]
        settles = last["lambda_stationary"] and last["sigma_sq_align"] is not None
        lags = settles and last["lambda_raw"] < LAGGING * last["lambda_stationary"]
        if lags and client not in alarms:
            slow[client] = last
    if not slow:
        return None
    client = min(slow, key=lambda each: slow[each]["lambda_raw"] / slow[each]["lambda_stationary"])
    last = slow[client]
    return Verdict(
        f"The sigmas of {listed(slow)} have not settled: client {client}, with"
        f" {counted(last['steps'], 'step')} per round, ends at lambda {quantity(last['lambda_raw'])}"
        f" where {quantity(last['lambda_stationary'])} is stationary.",
        problem=False,
        subject="lambda",
        advice="Raise align.sigma_lr if that matters.",
    )


def divided_gradient(run: Run) -> Verdict | None:
    """V10: B's gradient is divided by 2 sl2 and A's weight is small: a weak step, no strong pull."""
    last = [records[-1] for records in run.clients.values()]
    weights = [record["base_weight"] for record in last if record.get("base_weight") is not None]
    if not run.balance.divides_base or not last or len(weights) < len(last):
        return None
    divisor = 1 / max(mean(weights), 1e-30)
    align = mean(record["lambda_effective"] for record in last)
    clip = mean(record["clip_factor"] for record in last)
    if divisor < 1 / DIVIDED or align >= V7:
        return None
    clipping = f" Clipping (mean factor {quantity(clip)}) hides a part of the division."
    hidden = clipping if clip < 0.9 else ""
    return Verdict(
        f"The local gradient is divided by 2 sl2 = {quantity(divisor)} and A has the weight"
        f" {quantity(align)}, {percent(align / V7)} % of V7's: where this run falls behind, it is"
        f" under-trained and not over-aligned.{hidden} Compare it with v10-decoupled.",
        problem=False,
    )
