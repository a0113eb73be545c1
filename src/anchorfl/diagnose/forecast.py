"""Where lambda will go, without training: asked of the balance, on assumed or recorded losses."""

from __future__ import annotations

import math
from collections.abc import Sequence

from anchorfl.errors import UserError
from anchorfl.objective import SCHEDULES, Balance, Course, Point, RoundMeans, Setting
from anchorfl.runs import Run


def forecast(
    balance: Balance,
    rounds: Sequence[RoundMeans],
    class_counts: Sequence[int] = (),
    setting: Setting | None = None,
    known: tuple[float, float] | None = None,
) -> list[Point]:
    """Raw, effective and stationary lambda at the end of every round.

    `known` are u and v at the end of round 0, where they were recorded.
    """
    if balance.starts_from_labels and not sum(class_counts):
        raise UserError("this lambda starts from a client's labels: name a finished RUN to forecast")
    return balance.forecast(Course(rounds, class_counts, setting or Setting(len(rounds)), known))


def forecast_run(run: Run) -> dict[int, list[Point]]:
    """Every client of a run, from its round means of B, A and the clip factor, and its steps.

    Of the sigmas only those at the end of round 0 are looked at.
    """
    train = run.train
    if not run.clients:
        raise UserError(f"{run.folder}: no round was recorded")
    schedule = SCHEDULES.get(train.schedule)
    setting = Setting(train.rounds, train.local_epochs, train.reset_optimizer, schedule)
    found = {}
    for client, records in run.clients.items():
        if records[0]["align_loss"] is None:
            raise UserError(f"{run.folder}: method {run.method} has no lambda to forecast")
        rounds = [
            RoundMeans(
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


def smallest_gamma(rounds: Sequence[RoundMeans], bound: float) -> float:
    """The gamma that keeps V12-gamma's stationary lambda below a bound: the largest B/(2 bound)."""
    return max(each.base for each in rounds) / (2 * bound)


def geometric(first: float, last: float, rounds: int) -> list[float]:
    """A curve that falls by the same factor in every round."""
    if rounds == 1:
        return [first]
    share = (last / first) ** (1 / (rounds - 1))
    return [first * share**number for number in range(rounds)]
