"""A lambda learned by two log-variances: V10.

Written in u = log sl2, v = log sa2 (`log_sigma_sq_local`, `log_sigma_sq_align`), lambda = e^(u - v).
Source of the idea: Kendall, Gal and Cipolla, 2018.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from anchorfl.objective.balance.base import BALANCES, EXPLODED, Balance, ClientFacts, Losses, yardstick
from anchorfl.objective.balance.entropy import entropy_lambda
from anchorfl.objective.course import Course, Point
from anchorfl.objective.maths import LOG_LIMIT, N, bounded, clamp, exp, ratio
from anchorfl.options import option
from anchorfl.tensors import Tensor, Tensors

NUDGE = 1e-5


def log_variances(state: Tensors) -> tuple[Tensor, Tensor]:
    return bounded(state["log_sigma_sq_local"]), bounded(state["log_sigma_sq_align"])


@dataclass(frozen=True)
class Uncertainty(Balance):
    """Sigmas that descend an objective of their own while the weights see B + effective lambda A.

    Both happen in one backward: in the sum of the two losses each part is constant for the other's
    parameters. A subclass gives the objective, its stationary lambda and the effective lambda.
    `lambda_bound` in the state is where `align.guard=cap` holds the effective lambda; else e^40.
    """

    learned = True

    start: str = option(
        "zero",
        "first u and v: zero (0, 0), local-first (-1, 0), entropy (lambda is V9's)",
        choices=("zero", "local-first", "entropy"),
    )
    sigma_lr: float = option(0.05, "learning rate of u and v, under train.schedule", at_least=0)
    sigma_momentum: float = option(0.9, "momentum of u and v", at_least=0, below=1)
    lambda_min: float = option(0.1, "start=entropy: lambda of a client with one class", above=0)
    lambda_max: float = option(10.0, "start=entropy: lambda of a client with uniform labels", above=0)
    guard: str = option(
        "warn",
        "when lambda runs away: off, warn, stop the run, cap at 10 times B/A of round 0",
        choices=("off", "warn", "stop", "cap"),
    )

    @abstractmethod
    def objective(self, base: N, align: N, u: N, v: N, s: N) -> N:
        """What the sigmas see."""

    @abstractmethod
    def stationary(self, base: N, align: N, s: N) -> N:
        """The lambda at which the objective's gradient vanishes for fixed losses."""

    def effective(self, u: N, v: N, s: N) -> N:
        """The number that multiplies A in the weights' gradient."""
        return exp(u - v)

    def base_weight(self, u: N) -> N:
        """The number that multiplies B in the weights' gradient."""
        return u * 0.0 + 1.0

    def sgd(self, lr: float, momentum: float) -> tuple[float, float]:
        return self.sigma_lr, self.sigma_momentum

    def pace(self, u: N) -> N:
        """How many times as fast as their objective says the sigmas move."""
        return u * 0.0 + 1.0

    def first(self, class_counts: Sequence[int]) -> tuple[float, float]:
        """u and v before the first step."""
        if self.start == "entropy":
            chosen = entropy_lambda(class_counts, self.lambda_min, self.lambda_max)
            return math.log(chosen), 0.0
        return {"zero": 0.0, "local-first": -1.0}[self.start], 0.0

    def init(self, facts: ClientFacts) -> Tensors:
        import torch

        u, v = self.first(facts.class_counts.tolist())
        return {
            "log_sigma_sq_local": torch.tensor(u, requires_grad=True),
            "log_sigma_sq_align": torch.tensor(v, requires_grad=True),
            "lambda_bound": torch.tensor(math.exp(LOG_LIMIT)),
        }

    def loss(self, losses: Losses, state: Tensors, anneal: Tensor) -> tuple[Tensor, Tensors]:
        base, align = losses.base, losses.align
        u, v = log_variances(state)
        effective = self.effective(u, v, anneal).minimum(state["lambda_bound"])
        weights_see = self.base_weight(u).detach() * base + effective.detach() * align
        sigmas_see = self.objective(base.detach(), align.detach(), u, v, anneal)
        return weights_see + self.pace(u).detach() * sigmas_see, {}

    def after_first_round(self, losses: Losses) -> Tensors:
        bound = EXPLODED * yardstick(losses.base, losses.align)
        return {"lambda_bound": bound} if self.guard == "cap" else {}

    def readings(self, losses: Losses, state: Tensors, anneal: Tensor) -> Tensors:
        u, v = log_variances(state)
        return {
            "lambda_raw": exp(u - v),
            "lambda_effective": self.effective(u, v, anneal).minimum(state["lambda_bound"]),
            "lambda_stationary": self.stationary(losses.base, losses.align, anneal),
            "sigma_sq_local": exp(u),
            "sigma_sq_align": exp(v),
            "base_weight": self.base_weight(u),
        }

    @property
    def starts_from_labels(self) -> bool:
        return self.start == "entropy"

    def cure(self, gamma: float) -> str:
        return f"Use v12-gamma with align.gamma={gamma:.2g} or more."

    def forecast(self, course: Course) -> list[Point]:
        """Every sigma step of every round, on losses that run from one round's mean to the next.

        One is m <- beta m + c g, x <- x - eta m for x = u and v, with g the slope of the sigmas'
        objective on the losses of the moment and c the clip factor.
        """
        setting, points = course.setting, []
        u, v = self.first(course.class_counts)
        speed_u = speed_v = 0.0
        means = [(each.base, each.align, each.clip) for each in course.rounds]
        curves = list(zip(*means, strict=True))
        for number, now in enumerate(course.rounds):
            if setting.reset_optimizer:
                speed_u = speed_v = 0.0
            for step in range(now.steps):
                share = (step + 0.5) / now.steps
                base, align, clip = (between(curve, number, share) for curve in curves)
                epoch = number * setting.local_epochs + step * setting.local_epochs // now.steps
                s = self.anneal(setting.moment(epoch))
                slope_u, slope_v = slopes(self, base, align, u, v, s)
                speed_u = self.sigma_momentum * speed_u + clip * slope_u
                speed_v = self.sigma_momentum * speed_v + clip * slope_v
                rate = self.sigma_lr * setting.rate((number + share) / setting.rounds)
                u = clamp(u - rate * speed_u, -LOG_LIMIT, LOG_LIMIT)
                v = clamp(v - rate * speed_v, -LOG_LIMIT, LOG_LIMIT)
            if number == 0 and course.known:
                u, v = course.known
            s = self.anneal(setting.last_moment(number))
            stationary = self.stationary(now.base, now.align, s)
            points.append(Point(number, exp(u - v), self.effective(u, v, s), stationary))
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


@BALANCES.register("decoupled")
@dataclass(frozen=True)
class Decoupled(Uncertainty):
    """V10's sigmas, while the weights take a full step on B.

    sigmas see     e^-u B/2 + e^-v A/2 + (u + v)/2, losses detached
    weights see    B + lambda A, lambda detached
    stationary     sl2 = B, sa2 = A, lambda* = B/A
    consequence    grows without bound as A -> 0
    source         diary 003's split of the losses, without annealing
    """

    def objective(self, base: N, align: N, u: N, v: N, s: N) -> N:
        return (exp(-u) * base + exp(-v) * align + u + v) / 2

    def stationary(self, base: N, align: N, s: N) -> N:
        return ratio(base, align)


@BALANCES.register("coupled")
@dataclass(frozen=True)
class Coupled(Decoupled):
    """Weights and sigmas see one expression, as V10 writes it: their gradients are its gradient.

    both see       e^-u B/2 + e^-v A/2 + (u + v)/2
    stationary     sl2 = B, sa2 = A, lambda* = B/A
    consequence    B's gradient is divided by 2 sl2, A's by 2 sa2: the effective lambda is 1/(2 sa2)
    source         V10, diary 001; Kendall, Gal and Cipolla, 2018
    """

    divides_base = True

    def effective(self, u: N, v: N, s: N) -> N:
        return exp(-v) / 2

    def base_weight(self, u: N) -> N:
        return exp(-u) / 2
