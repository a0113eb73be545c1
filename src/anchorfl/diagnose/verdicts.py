"""What happened in a run, in plain sentences with their numbers.

A rule looks at one thing in a run's records and says what it saw, or nothing where it did not happen
or the evidence is missing. No rule names a cause that the numbers do not separate.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import mean
from typing import Any

from anchorfl.balance.uncertainty import EXPLODED, Uncertainty
from anchorfl.diagnose.guard import replay
from anchorfl.records import Run

READOUT, PROTOTYPE_FREE = "feature-mean", "class-mean"
FALLEN = 5.0
STEADY = 2.0
FROZEN = 0.1
CLIPPED = 0.5
CANCELLED = 0.8
DIVIDED = 0.25
LAGGING = 0.5
V7 = 5.0


@dataclass(frozen=True)
class Verdict:
    """`problem` is False for what a user should know but need not mend."""

    about: str
    text: str
    problem: bool = True


Rule = Callable[[Run], Verdict | None]


def listed(clients: Iterable[int]) -> str:
    numbers = sorted(clients)
    return f"client{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}"


def ran_away(run: Run) -> Verdict | None:
    """Lambda exploded or was about to: who, since when, and how much of it was A and how much s."""
    alarms = replay(run)
    if not alarms:
        return None
    exploded = [client for client in alarms if height(run.clients[client]) >= EXPLODED]
    who = exploded or list(alarms)
    worst = max(who, key=lambda client: highest(run.clients[client])["lambda_raw"])
    first, peak = run.clients[worst][0], highest(run.clients[worst])
    by_align = math.log(max(first["align_loss"], 1e-30) / max(peak["align_loss"], 1e-30))
    by_anneal = math.log(first["anneal"] / max(peak["anneal"], 1e-30))
    since = min(alarms[client].round for client in who)
    gamma = max(run.clients[client][0]["align_loss"] for client in who) / (2 * EXPLODED)
    return Verdict(
        "runaway",
        f"Lambda {'ran away' if exploded else 'was about to run away'} on {listed(who)}, from round"
        f" {since} on: client {worst}'s raw lambda reached {peak['lambda_raw']:,.4g} in round"
        f" {peak['round']}. Its align loss had fallen from {first['align_loss']:.3g} to"
        f" {peak['align_loss']:.2g}, which raises B/A by e^{by_align:.1f}, and s from"
        f" {first['anneal']:.2g} to {peak['anneal']:.2g}, e^{by_anneal:.1f}. Use v12-gamma with"
        f" align.gamma={gamma:.2g} or more.",
    )


def height(records: Sequence[dict[str, Any]]) -> float:
    """The largest effective lambda over B/A of round 0."""
    yardstick = records[0]["base_loss"] / max(records[0]["align_loss"], 1e-30)
    return float(max(record["lambda_effective"] for record in records) / yardstick)


def highest(records: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return max(records, key=lambda record: record["lambda_raw"] or 0.0)


def accuracy(run: Run, fusion: str) -> list[float] | None:
    """Percent at every evaluation; None where the fusion was not evaluated often enough to tell."""
    values = [100 * record["accuracy"].get(fusion, math.nan) for record in run.evaluations]
    return values if len(values) >= 3 and not any(map(math.isnan, values)) else None


def held(run: Run) -> Verdict | None:
    """A learned lambda that did not run away."""
    if not isinstance(run.balance, Uncertainty) or not run.clients or replay(run):
        return None
    top = max(height(records) for records in run.clients.values())
    return Verdict(
        "held",
        f"Lambda did not run away: on every client the effective one reached at most {top:.2g} times"
        " B/A of round 0.",
        problem=False,
    )


def readout_failed(run: Run) -> Verdict | None:
    """One reading of the same clients fell, the other did not: the encoders are not at fault."""
    read, free = accuracy(run, READOUT), accuracy(run, PROTOTYPE_FREE)
    if read is None or free is None:
        return None
    top = read.index(max(read))
    fall, other = read[top] - read[-1], free[-1] - free[top]
    if fall < FALLEN or other < -STEADY:
        return None
    norms = [
        (records[-1]["prototype_norm_seen"], records[-1]["prototype_norm_unseen"])
        for records in run.clients.values()
    ]
    seen = mean(norm for norm, _ in norms)
    unseen = [norm for _, norm in norms if norm is not None]
    beside = f" and {mean(unseen):.3g} for the others" if unseen else ""
    return Verdict(
        "readout",
        f"{READOUT} fell {fall:.1f} points from round {run.evaluations[top]['round']} to the end while"
        f" {PROTOTYPE_FREE} moved by {other:+.1f}: the readout failed, not the encoders. The mean norm"
        f" of a prototype is {seen:.3g} for the classes a client holds{beside}. Use"
        f" fusion={PROTOTYPE_FREE}.",
    )


def both_readings_fell(run: Run) -> Verdict | None:
    """The encoders themselves got worse."""
    read, free = accuracy(run, READOUT), accuracy(run, PROTOTYPE_FREE)
    if read is None or free is None:
        return None
    fall, other = max(read) - read[-1], max(free) - free[-1]
    if fall < FALLEN or other < FALLEN:
        return None
    return Verdict(
        "encoders",
        f"Both readings fell from their best: {READOUT} by {fall:.1f} points and {PROTOTYPE_FREE},"
        f" which reads no prototype, by {other:.1f}. The encoders got worse too.",
    )


def frozen_encoders(run: Run) -> Verdict | None:
    """Under one clip norm the prototypes' gradient took the encoder's step."""
    frozen = {}
    for client, records in run.clients.items():
        last = records[-5:]
        if len(last) == 5 and "gradient_share_encoder" in last[0]:
            share = mean(record["gradient_share_encoder"] for record in last)
            if share < FROZEN and mean(record["clip_factor"] for record in last) < CLIPPED:
                frozen[client] = share
    if not frozen or run.train.clip != "global":
        return None
    return Verdict(
        "frozen",
        f"The encoders of {listed(frozen)} hardly move: in the last rounds at most"
        f" {max(frozen.values()):.1%} of the squared gradient under the common clip norm is theirs.",
    )


def divided_gradient(run: Run) -> Verdict | None:
    """V10: B's gradient is divided by 2 sl2 and A's weight is small: too little of both."""
    last = [records[-1] for records in run.clients.values()]
    weights = [record["base_weight"] for record in last if record.get("base_weight") is not None]
    effective = [
        record["lambda_effective"] for record in last if record["lambda_effective"] is not None
    ]
    if not last or min(len(weights), len(effective)) < len(last):
        return None
    divisor, align = 1 / max(mean(weights), 1e-30), mean(effective)
    if divisor < 1 / DIVIDED or align >= V7:
        return None
    clip = mean(record["clip_factor"] for record in last)
    hidden = f" Clipping (mean factor {clip:.2f}) hides a part of the division." if clip < 0.9 else ""
    return Verdict(
        "under-trained",
        f"The local gradient is divided by 2 sl2 = {divisor:.3g} and A has the weight {align:.2g},"
        f" {align / V7:.0%} of V7's: the model is under-trained, not over-aligned.{hidden} Use"
        " v10-decoupled.",
    )


def cancelled_annealing(run: Run) -> Verdict | None:
    """Seed 000: raw lambda rises as s falls, so that the product hardly moves."""
    cancelled = {}
    for client, records in run.clients.items():
        late = [record for record in records if (record["anneal"] or 1.0) <= 0.5]
        if late and late[0]["lambda_raw"] and late[0]["lambda_effective"] and client not in replay(run):
            kept = late[-1]["lambda_effective"] / late[0]["lambda_effective"]
            if late[-1]["anneal"] <= 0.2 * late[0]["anneal"] and kept >= CANCELLED:
                cancelled[client] = (late[0], late[-1], kept)
    if not cancelled:
        return None
    client = min(cancelled)
    first, last, kept = cancelled[client]
    return Verdict(
        "cancelled",
        f"Annealing was cancelled on {listed(cancelled)}: while s fell from {first['anneal']:.2g} to"
        f" {last['anneal']:.2g}, client {client}'s raw lambda rose from {first['lambda_raw']:,.3g} to"
        f" {last['lambda_raw']:,.3g} and the effective one went to {kept:.2f} of what it was."
        " weight-annealed or v12-gamma lets it fall.",
    )


def slow_sigma(run: Run) -> Verdict | None:
    """A sigma that made too few steps to get where its losses would lead it."""
    slow = {}
    for client, records in run.clients.items():
        last = records[-1]
        settles = last["lambda_stationary"] and last["sigma_sq_align"] is not None
        if settles and last["lambda_raw"] < LAGGING * last["lambda_stationary"]:
            slow[client] = last
    slow = {client: last for client, last in slow.items() if client not in replay(run)}
    if not slow:
        return None
    client = min(slow, key=lambda each: slow[each]["lambda_raw"] / slow[each]["lambda_stationary"])
    last = slow[client]
    return Verdict(
        "slow-sigma",
        f"The sigmas of {listed(slow)} have not settled: client {client}, with {last['steps']}"
        f" step{'s' if last['steps'] > 1 else ''} a round, ends at lambda {last['lambda_raw']:.3g}"
        f" where {last['lambda_stationary']:,.3g} is stationary. Raise align.sigma_lr if that matters.",
        problem=False,
    )


def single_class(run: Run) -> Verdict | None:
    counts = {client: run.class_counts(client) for client in run.clients}
    single = [client for client, row in counts.items() if sum(count > 0 for count in row) == 1]
    if not single:
        return None
    verb = "holds" if len(single) == 1 else "hold"
    return Verdict("single-class", f"{listed(single).capitalize()} {verb} one class.", problem=False)


def not_finished(run: Run) -> Verdict | None:
    status = run.summary["status"] if run.summary else "is still going, or was killed"
    if status == "finished":
        return None
    rounds = sum(record["event"] == "round" for record in run.metrics)
    return Verdict("status", f"The run {status}; {rounds} of {run.train.rounds} rounds are recorded.")


def non_finite(run: Run) -> Verdict | None:
    told = [record for record in run.warnings if record["kind"] == "non-finite"]
    if not told:
        return None
    first = told[0]
    clients = listed({record["client"] for record in told})
    return Verdict(
        "non-finite",
        f"A loss was not finite on {clients}, first in round {first['round']}: lower train.lr.",
    )


RULES: dict[str, Rule] = {
    "status": not_finished,
    "non-finite": non_finite,
    "runaway": ran_away,
    "held": held,
    "readout": readout_failed,
    "encoders": both_readings_fell,
    "frozen": frozen_encoders,
    "under-trained": divided_gradient,
    "cancelled": cancelled_annealing,
    "slow-sigma": slow_sigma,
    "single-class": single_class,
}


def diagnose(run: Run) -> list[Verdict]:
    """What the rules say of a run, in their order; one sentence where all is well."""
    found = [verdict for rule in RULES.values() if (verdict := rule(run)) is not None]
    if any(verdict.problem for verdict in found):
        return found
    return [Verdict("well", "Nothing is wrong that these records could show.", problem=False), *found]
