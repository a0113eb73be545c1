"""The guard: sees an explosion of lambda coming, from what a client's rounds report.

The yardstick is B/A of the client's round 0, which is where its lambda first settles; an effective
lambda of ten times that has exploded.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from anchorfl.objective import EXPLODED, Balance, yardstick
from anchorfl.runs import Run, percent, quantity

RAISED = 2.0
HORIZON = 3
NEEDED = ("base_loss", "align_loss", "anneal", "lambda_raw", "lambda_effective")
REACTIONS = {
    "warn": "align.guard=stop ends such a run, cap holds lambda, v12-gamma bounds it",
    "stop": "the run stops after this round (align.guard=stop)",
    "cap": "its effective lambda is held at 10 times B/A of round 0 (align.guard=cap)",
}
Record = Mapping[str, Any]


@dataclass(frozen=True)
class Alarm:
    """Raised once per client: `sign` names the rule that saw it."""

    client: int
    round: int
    sign: str
    message: str


@dataclass
class Guard:
    """Remembers each client's yardstick and the round before; raises one alarm per client."""

    balance: Balance
    yardsticks: dict[int, float] = field(default_factory=dict)
    before: dict[int, Record] = field(default_factory=dict)
    alarms: dict[int, Alarm] = field(default_factory=dict)

    def look(self, record: Record) -> Alarm | None:
        """The alarm that a client's round gives cause for, if it is the client's first."""
        client = record["client"]
        if not self.balance.learned or client in self.alarms:
            return None
        if any(record[name] is None for name in NEEDED):
            return None  # not finite: that is a warning of its own
        self.yardsticks.setdefault(client, yardstick(record["base_loss"], record["align_loss"]))
        found = self.sign(record)
        self.before[client] = record
        if found is None:
            return None
        sign, numbers = found
        message = f"client {client}, round {record['round']}: lambda is running away ({numbers})"
        self.alarms[client] = Alarm(client, record["round"], sign, message)
        return self.alarms[client]

    def sign(self, record: Record) -> tuple[str, str] | None:
        """The first rule that applies, and its numbers in words."""
        measure, now = self.yardsticks[record["client"]], record["lambda_effective"]
        height = now / measure
        beside = f"effective {quantity(now)}, {quantity(height)} times B/A of round 0"
        if height >= EXPLODED:
            share = record.get("gradient_share_encoder")
            has = "is frozen" if share is None else f"has {percent(share)} % of the squared gradient"
            return "exploded", f"{beside}; the encoder {has}"
        before = self.before.get(record["client"])
        if height < RAISED or before is None:
            return None
        fall = record["align_loss"] / max(before["align_loss"], 1e-30)
        falling = record["align_loss"] * min(fall, 1.0) ** HORIZON
        stationary = self.balance.stationary(record["base_loss"], falling, record["anneal"])
        ahead = (stationary or 0.0) * record["lambda_effective"] / record["lambda_raw"]
        if fall < 1 and ahead > EXPLODED * measure:
            later = f"{quantity(ahead)} in {HORIZON} rounds"
            return "ahead", f"{beside}; with A falling as it does, {later}"
        return None


def replay(run: Run) -> dict[int, Alarm]:
    """The alarms that the guard raises on a finished run's records."""
    guard = Guard(run.balance)
    for record in run.metrics:
        if record["event"] == "client":
            guard.look(record)
    return guard.alarms
