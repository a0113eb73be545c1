"""The lambda that a learned one would settle at, without learning it."""

from __future__ import annotations

from dataclasses import dataclass

from anchorfl.objective.balance.base import BALANCES, Balance, ClientFacts, Losses
from anchorfl.objective.course import Course, Point
from anchorfl.objective.maths import N, ratio
from anchorfl.objective.schedules import progress_option, schedule_option
from anchorfl.options import option
from anchorfl.tensors import Tensor, Tensors


@BALANCES.register("closed-form")
@dataclass(frozen=True)
class ClosedForm(Balance):
    """The stationary lambda itself, from running means of B and A.

    lambda         s B/(A + 2 gamma), detached
    weights see    B + lambda A
    consequence    no sigma, no lag, no explosion
    source         log-annealed-gamma in its stationary point
    """

    schedule: str = schedule_option("linear")
    progress: str = progress_option()
    gamma: float = option(0.05, "a floor of 2 gamma under A", at_least=0)
    memory: float = option(0.9, "share of the running means that a step keeps", at_least=0, below=1)

    def stationary(self, base: N, align: N, s: N) -> N:
        return ratio(s * base, align + 2 * self.gamma)

    def init(self, facts: ClientFacts) -> Tensors:
        import torch

        return {name: torch.zeros(()) for name in ("base_sum", "align_sum", "weight_sum")}

    def loss(self, losses: Losses, state: Tensors, anneal: Tensor) -> tuple[Tensor, Tensors]:
        new = {"base_sum": losses.base, "align_sum": losses.align, "weight_sum": anneal.new_ones(())}
        kept = {name: self.memory * state[name] + new[name].detach() for name in new}
        return losses.base + self.lambda_of(kept, anneal) * losses.align, kept

    def lambda_of(self, sums: Tensors, s: Tensor) -> Tensor:
        base, align = (ratio(sums[name], sums["weight_sum"]) for name in ("base_sum", "align_sum"))
        return self.stationary(base, align, s)

    def readings(self, losses: Losses, state: Tensors, anneal: Tensor) -> Tensors:
        now = self.lambda_of(state, anneal)
        return {
            "lambda_raw": now,
            "lambda_effective": now,
            "lambda_stationary": self.stationary(losses.base, losses.align, anneal),
        }

    def forecast(self, course: Course) -> list[Point]:
        settled = [
            self.stationary(means.base, means.align, s)
            for means, s in zip(course.rounds, self.last_factors(course), strict=True)
        ]
        return [Point(k, now, now, now) for k, now in enumerate(settled)]
