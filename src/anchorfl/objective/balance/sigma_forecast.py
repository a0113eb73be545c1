"""Where learned sigmas go: their own descent, integrated without training anything.

One sigma step is m <- beta m + c g, x <- x - eta m for x = u and v, with g the slope of the balance's
sigma objective on the losses of the moment and c the clip factor.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from anchorfl.objective.balance.base import Point, RoundMeans, Setting
from anchorfl.objective.maths import LOG_LIMIT, clamp

if TYPE_CHECKING:
    from anchorfl.objective.balance.uncertainty import Uncertainty

NUDGE = 1e-5


def integrate(
    balance: Uncertainty,
    rounds: Sequence[RoundMeans],
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
            s = balance.anneal(setting.moment(epoch))
            slope_u, slope_v = slopes(balance, base, align, u, v, s)
            speed_u = balance.sigma_momentum * speed_u + clip * slope_u
            speed_v = balance.sigma_momentum * speed_v + clip * slope_v
            rate = balance.sigma_lr * setting.rate((number + share) / setting.rounds)
            u = clamp(u - rate * speed_u, -LOG_LIMIT, LOG_LIMIT)
            v = clamp(v - rate * speed_v, -LOG_LIMIT, LOG_LIMIT)
        if number == 0 and known:
            u, v = known
        s = balance.anneal(setting.last_moment(number))
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
