"""Where lambda goes: the sigmas' own descent, integrated without training anything.

One sigma step is m <- beta m + c g, x <- x - eta m for x = u and v, with g the slope of the balance's
sigma objective on the losses of the moment and c the clip factor.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from anchorfl.balance.annealed import ClosedForm
from anchorfl.balance.base import Balance
from anchorfl.balance.fixed import Entropy, Given
from anchorfl.balance.uncertainty import Uncertainty
from anchorfl.errors import UserError
from anchorfl.maths import LOG_LIMIT, clamp
from anchorfl.records import Run
from anchorfl.schedules import SCHEDULES, Moment

NUDGE = 1e-5


@dataclass(frozen=True)
class Round:
    """What a round brings: mean losses, the clip factor of the sigmas, steps."""

    base: float
    align: float
    clip: float = 1.0
    steps: int = 40


@dataclass(frozen=True)
class Point:
    """Lambda at the end of a round."""

    round: int
    raw: float
    effective: float
    stationary: float | None


@dataclass(frozen=True)
class Setting:
    """What of an experiment the sigmas feel beside the losses."""

    rounds: int
    local_epochs: int = 1
    reset_optimizer: bool = False
    rate: Callable[[float], float] = lambda progress: 1.0


def forecast(
    balance: Balance,
    rounds: Sequence[Round],
    class_counts: Sequence[int] = (),
    setting: Setting | None = None,
    known: tuple[float, float] | None = None,
) -> list[Point]:
    """Raw, effective and stationary lambda at the end of every round.

    `known` are u and v at the end of round 0, where they were recorded.
    """
    setting = setting or Setting(len(rounds))
    by_entropy = isinstance(balance, Entropy) or getattr(balance, "start", None) == "entropy"
    if by_entropy and not sum(class_counts):
        raise UserError("this lambda starts from a client's labels: forecast a run that ended")
    if isinstance(balance, Uncertainty):
        return integrate(balance, rounds, class_counts, setting, known)
    points = []
    for number, each in enumerate(rounds):
        s = last_factor(balance, number, setting)
        if isinstance(balance, Given):
            raw = balance.given(class_counts)
            points.append(Point(number, raw, s * raw, None))
        elif isinstance(balance, ClosedForm):
            now = balance.stationary(each.base, each.align, s)
            points.append(Point(number, now, now, now))
        else:
            raise UserError("this method has no lambda to forecast")
    return points


def integrate(
    balance: Uncertainty,
    rounds: Sequence[Round],
    class_counts: Sequence[int],
    setting: Setting,
    known: tuple[float, float] | None,
) -> list[Point]:
    """Every sigma step of every round, on losses that run from one round's mean to the next."""
    u, v = balance.first(class_counts)
    speed_u = speed_v = 0.0
    bases, aligns = [each.base for each in rounds], [each.align for each in rounds]
    clips = [each.clip for each in rounds]
    points = []
    for number, now in enumerate(rounds):
        if setting.reset_optimizer:
            speed_u = speed_v = 0.0
        for step in range(now.steps):
            share = (step + 0.5) / now.steps
            base = between(bases, number, share)
            align = between(aligns, number, share)
            clip = between(clips, number, share)
            epoch = number * setting.local_epochs + step * setting.local_epochs // now.steps
            s = factor(balance, epoch, setting)
            slope_u, slope_v = slopes(balance, base, align, u, v, s)
            speed_u = balance.sigma_momentum * speed_u + clip * slope_u
            speed_v = balance.sigma_momentum * speed_v + clip * slope_v
            rate = balance.sigma_lr * setting.rate((number + share) / setting.rounds)
            u = clamp(u - rate * speed_u, -LOG_LIMIT, LOG_LIMIT)
            v = clamp(v - rate * speed_v, -LOG_LIMIT, LOG_LIMIT)
        if number == 0 and known:
            u, v = known
        s = last_factor(balance, number, setting)
        stationary = balance.stationary(now.base, now.align, s)
        points.append(Point(number, math.exp(u - v), balance.effective(u, v, s), stationary))
    return points


def slopes(
    balance: Uncertainty, base: float, align: float, u: float, v: float, s: float
) -> tuple[float, float]:
    """d/du and d/dv of what the sigmas see, by central differences, at the balance's pace."""

    def seen(du: float, dv: float) -> float:
        return balance.objective(base, align, u + du, v + dv, s)

    pace = balance.pace(u) / (2 * NUDGE)
    return (
        pace * (seen(NUDGE, 0.0) - seen(-NUDGE, 0.0)),
        pace * (seen(0.0, NUDGE) - seen(0.0, -NUDGE)),
    )


def between(means: Sequence[float], number: int, share: float) -> float:
    """A loss `share` of the way through a round, on the line through the middles of the rounds.

    Losses fall by factors, so the line is drawn in their logarithms where both are positive.
    """
    other = min(max(number + (1 if share > 0.5 else -1), 0), len(means) - 1)
    weight = abs(share - 0.5)
    here, there = means[number], means[other]
    if here > 0 and there > 0:
        return math.exp((1 - weight) * math.log(here) + weight * math.log(there))
    return (1 - weight) * here + weight * there


def factor(balance: Balance, epoch: int, setting: Setting) -> float:
    """s in an epoch."""
    epochs = setting.rounds * setting.local_epochs
    return balance.anneal(Moment(epoch, epochs, setting.local_epochs))


def last_factor(balance: Balance, number: int, setting: Setting) -> float:
    """s in a round's last epoch."""
    return factor(balance, (number + 1) * setting.local_epochs - 1, setting)


def forecast_run(run: Run) -> dict[int, list[Point]]:
    """Every client of a run, from its round means of B, A and the clip factor, and its steps.

    Of the sigmas only those at the end of round 0 are looked at.
    """
    train = run.train
    if not run.clients:
        raise UserError(f"{run.folder}: no round was recorded")
    schedule = SCHEDULES[train.schedule]
    setting = Setting(train.rounds, train.local_epochs, train.reset_optimizer, schedule)
    found = {}
    for client, records in run.clients.items():
        if records[0]["align_loss"] is None:
            raise UserError(f"{run.folder}: method {run.method} has no lambda to forecast")
        rounds = [
            Round(
                record["base_loss"],
                record["align_loss"],
                record.get("clip_factor_sigmas") or record["clip_factor"],
                record["steps"],
            )
            for record in records
        ]
        sigmas = [records[0][f"sigma_sq_{which}"] for which in ("local", "align")]
        known = (math.log(sigmas[0]), math.log(sigmas[1])) if all(sigmas) else None
        counts = run.class_counts(client)
        found[client] = forecast(run.balance, rounds, counts, setting, known)
    return found


def leaves(points: Sequence[Point], bound: float) -> int | None:
    """The first round that ends with a raw lambda above a bound."""
    return next((point.round for point in points if point.raw > bound), None)


def smallest_gamma(rounds: Sequence[Round], bound: float) -> float:
    """The gamma that keeps V12-gamma's stationary lambda below a bound: the largest B/(2 bound)."""
    return max(each.base for each in rounds) / (2 * bound)


def geometric(first: float, last: float, rounds: int) -> list[float]:
    """A curve that falls by the same factor in every round."""
    if rounds == 1:
        return [first]
    share = (last / first) ** (1 / (rounds - 1))
    return [first * share**number for number in range(rounds)]
