"""What happened in a run, in plain sentences with their numbers.

A rule looks at one thing in a run's records and says what it saw, or nothing where it did not happen
or the evidence is missing. No rule names a cause that the numbers do not separate.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import mean

from anchorfl.balance.uncertainty import EXPLODED, Coupled, Uncertainty
from anchorfl.diagnose.guard import replay
from anchorfl.records import Record, Run

READOUT, PROTOTYPE_FREE = "feature-mean", "class-mean"
FALLEN = 5.0
STEADY = 2.0
FROZEN = 0.1
CLIPPED = 0.5
CANCELLED = 0.8
DIVIDED = 0.25
LAGGING = 0.5
V7 = 5.0
NAMED = 12


@dataclass(frozen=True)
class Verdict:
    """`problem` is False for what a user should know but need not mend."""

    about: str
    text: str
    problem: bool = True


Rule = Callable[[Run], Verdict | None]


def listed(clients: Iterable[int]) -> str:
    numbers = sorted(clients)
    if len(numbers) > NAMED:
        return f"{len(numbers)} clients ({', '.join(map(str, numbers[:NAMED]))}, ...)"
    return f"client{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}"


def ran_away(run: Run) -> Verdict | None:
    """Lambda exploded or was about to: who, since when, and how much of it was A and how much s."""
    alarms = replay(run)
    if not alarms:
        return None
    exploded = [client for client in alarms if height(run.clients[client]) >= EXPLODED]
    who = exploded or list(alarms)
    worst = max(who, key=lambda client: highest(run.clients[client])["lambda_raw"])
    records, since = run.clients[worst], alarms[worst].round
    first, onset, peak = records[0], by_round(records)[since], highest(records)
    by_align = math.log(max(first["align_loss"], 1e-30) / max(onset["align_loss"], 1e-30))
    by_anneal = math.log(first["anneal"] / max(onset["anneal"], 1e-30))
    gamma = max(run.clients[client][0]["align_loss"] for client in who) / (2 * EXPLODED)
    told = "ran away" if exploded else "was about to run away"
    if getattr(run.balance, "guard", None) == "cap":
        told = "would have run away, and was held at ten times B/A of round 0,"
    return Verdict(
        "runaway",
        f"Lambda {told} on {listed(who)}, from round {min(alarms[each].round for each in who)} on."
        f" When it showed on client {worst}, in round {since}, A had fallen from"
        f" {first['align_loss']:.3g} to {onset['align_loss']:.2g}, which raises B/A by"
        f" e^{by_align:.1f}, and s from {first['anneal']:.2g} to {onset['anneal']:.2g},"
        f" e^{by_anneal:.1f}; its stationary lambda was {onset['lambda_stationary']:,.4g}. The raw one"
        f" reached {peak['lambda_raw']:,.4g} in round {peak['round']}. Use v12-gamma with"
        f" align.gamma={gamma:.2g} or more.",
    )


def by_round(records: Sequence[Record]) -> dict[int, Record]:
    return {record["round"]: record for record in records}


def height(records: Sequence[Record]) -> float:
    """The largest effective lambda over B/A of round 0."""
    yardstick = records[0]["base_loss"] / max(records[0]["align_loss"], 1e-30)
    return float(max(record["lambda_effective"] for record in records) / yardstick)


def highest(records: Sequence[Record]) -> Record:
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
    if read is None or free is None or not run.clients:
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
        f" {PROTOTYPE_FREE} moved by {other:+.1f}: the readout failed, the encoders did not get worse."
        f" The mean norm of a prototype is {seen:.3g} for the classes a client holds{beside}. Use"
        f" fusion={PROTOTYPE_FREE}.",
    )


def both_readings_fell(run: Run) -> Verdict | None:
    """The encoders themselves got worse."""
    read, free = accuracy(run, READOUT), accuracy(run, PROTOTYPE_FREE)
    if read is None or free is None:
        return None
    top = read.index(max(read))
    fall, other = read[top] - read[-1], free[top] - free[-1]
    if fall < FALLEN or other < FALLEN:
        return None
    return Verdict(
        "encoders",
        f"Both readings fell from round {run.evaluations[top]['round']} to the end: {READOUT} by"
        f" {fall:.1f} points and {PROTOTYPE_FREE}, which reads no prototype, by {other:.1f}. The"
        " encoders got worse too.",
    )


def frozen_encoders(run: Run) -> Verdict | None:
    """Under one clip norm the prototypes' gradient took the encoder's step."""
    frozen = {}
    for client, records in run.clients.items():
        last = records[-5:]
        told = [record.get("gradient_share_encoder") for record in last]
        shares = [share for share in told if share is not None]
        if len(shares) == 5:
            share = mean(shares)
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
    """V10: B's gradient is divided by 2 sl2 and A's weight is small: a weak step, no strong pull."""
    last = [records[-1] for records in run.clients.values()]
    weights = [record["base_weight"] for record in last if record.get("base_weight") is not None]
    if not isinstance(run.balance, Coupled) or not last or len(weights) < len(last):
        return None
    divisor = 1 / max(mean(weights), 1e-30)
    align = mean(record["lambda_effective"] for record in last)
    clip = mean(record["clip_factor"] for record in last)
    if divisor < 1 / DIVIDED or align >= V7:
        return None
    hidden = f" Clipping (mean factor {clip:.2f}) hides a part of the division." if clip < 0.9 else ""
    return Verdict(
        "divided",
        f"The local gradient is divided by 2 sl2 = {divisor:.3g} and A has the weight {align:.2g},"
        f" {align / V7:.0%} of V7's: where this run falls behind, it is under-trained and not"
        f" over-aligned.{hidden} Compare it with v10-decoupled.",
        problem=False,
    )


def fusion_gains_nothing(run: Run) -> Verdict | None:
    """The primary fusion ends below what one client does alone."""
    if not run.evaluations:
        return None
    last = run.evaluations[-1]
    primary, fused = next(iter(last["accuracy"].items()))
    alone = max(value for value in last["local_accuracy"] if value is not None)
    if fused >= alone:
        return None
    others = {name: value for name, value in last["accuracy"].items() if value > alone}
    best = max(others, key=lambda name: others[name], default=None)
    advice = f" {best} has {100 * others[best]:.1f} %: use fusion={best}." if best else ""
    return Verdict(
        "no-gain",
        f"{primary} ends at {100 * fused:.1f} %, below the best single client's {100 * alone:.1f} %."
        f"{advice}",
    )


def cancelled_annealing(run: Run) -> Verdict | None:
    """Seed 000: raw lambda rises as s falls, so that the product hardly moves."""
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
    alarms = replay(run)
    slow = {client: last for client, last in slow.items() if client not in alarms}
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
    table = (run.summary or {}).get("label_table", [])
    counts = dict(enumerate(table))
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
    "no-gain": fusion_gains_nothing,
    "divided": divided_gradient,
    "cancelled": cancelled_annealing,
    "slow-sigma": slow_sigma,
    "single-class": single_class,
}


ALWAYS = ("base_loss", "clip_factor", "steps", "prototype_norm_seen")
LEARNED = ("align_loss", "anneal", "lambda_raw", "lambda_effective", "lambda_stationary")


def sound(run: Run) -> Run:
    """The run without the client records in which a number that rules look at is missing."""
    needed = (*ALWAYS, *LEARNED) if isinstance(run.balance, Uncertainty) else ALWAYS

    def complete(record: Record) -> bool:
        return record["event"] != "client" or all(record.get(name) is not None for name in needed)

    return replace(run, metrics=[record for record in run.metrics if complete(record)])


def diagnose(run: Run) -> list[Verdict]:
    """What the rules say of a run, in their order; one sentence where all is well."""
    whole = sound(run)
    found = [verdict for rule in RULES.values() if (verdict := rule(whole)) is not None]
    if any(verdict.problem for verdict in found):
        return found
    return [Verdict("well", "Nothing is wrong that these records could show.", problem=False), *found]
