"""A lambda learned by two log-variances: V10 and V11.

Written in u = log sl2, v = log sa2 (`log_sigma_sq_local`, `log_sigma_sq_align`), lambda = e^(u - v).
Source of the idea: Kendall, Gal and Cipolla, 2018.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from anchorfl.balance.base import (
    BALANCES,
    Balance,
    ClientFacts,
    Losses,
    bounded,
    ratio,
    schedule_option,
)
from anchorfl.balance.fixed import entropy_lambda
from anchorfl.options import option
from anchorfl.tensors import Tensors

STARTS = ("zero", "local-first", "entropy")


def log_variances(state: Tensors) -> tuple[Tensor, Tensor]:
    return bounded(state["log_sigma_sq_local"]), bounded(state["log_sigma_sq_align"])


@dataclass(frozen=True)
class Uncertainty(Balance):
    """Sigmas that descend an objective of their own while the weights see B + effective lambda A.

    Both happen in one backward: in the sum of the two losses each part is constant for the other's
    parameters. A subclass gives the objective, its stationary lambda and the effective lambda.
    """

    start: str = option(
        "zero",
        "first u and v: zero (0, 0), local-first (-1, 0), entropy (lambda is V9's)",
        choices=STARTS,
    )
    sigma_lr: float = option(0.05, "learning rate of u and v", at_least=0)
    sigma_momentum: float = option(0.9, "momentum of u and v", at_least=0, below=1)
    lambda_min: float = option(0.1, "start=entropy: lambda of a client with one class", above=0)
    lambda_max: float = option(10.0, "start=entropy: lambda of a client with all alike", above=0)

    @abstractmethod
    def objective(self, base: Tensor, align: Tensor, u: Tensor, v: Tensor, s: Tensor) -> Tensor:
        """What the sigmas see."""

    @abstractmethod
    def stationary(self, base: Tensor, align: Tensor, s: Tensor) -> Tensor:
        """The lambda at which the objective's gradient vanishes for fixed losses."""

    def effective(self, u: Tensor, v: Tensor, s: Tensor) -> Tensor:
        """The number that multiplies A in the weights' gradient."""
        return torch.exp(u - v)

    def sgd(self, lr: float, momentum: float) -> tuple[float, float]:
        return self.sigma_lr, self.sigma_momentum

    def init(self, facts: ClientFacts) -> Tensors:
        local = {"zero": 0.0, "local-first": -1.0}.get(self.start)
        if local is None:
            chosen = entropy_lambda(facts.class_counts, self.lambda_min, self.lambda_max)
            local = math.log(float(chosen))
        return {
            "log_sigma_sq_local": torch.tensor(local, requires_grad=True),
            "log_sigma_sq_align": torch.tensor(0.0, requires_grad=True),
        }

    def loss(self, losses: Losses, state: Tensors, anneal: Tensor) -> tuple[Tensor, Tensors]:
        base, align = losses.base, losses.align
        u, v = log_variances(state)
        weights_see = base + self.effective(u, v, anneal).detach() * align
        return weights_see + self.objective(base.detach(), align.detach(), u, v, anneal), {}

    def readings(self, losses: Losses, state: Tensors, anneal: Tensor) -> Tensors:
        u, v = log_variances(state)
        return {
            "lambda_raw": torch.exp(u - v),
            "lambda_effective": self.effective(u, v, anneal),
            "lambda_stationary": self.stationary(losses.base, losses.align, anneal),
            "sigma_sq_local": torch.exp(u),
            "sigma_sq_align": torch.exp(v),
        }


@BALANCES.register("decoupled")
@dataclass(frozen=True)
class Decoupled(Uncertainty):
    """V10's sigmas, while the weights take a full step on B.

    sigmas see     e^-u B/2 + e^-v A/2 + (u + v)/2, losses detached
    weights see    B + lambda A, lambda detached
    stationary     sl2 = B, sa2 = A, lambda* = B/A
    consequence    grows without bound as A -> 0
    source         seed 003's split of the losses, without annealing
    """

    def objective(self, base: Tensor, align: Tensor, u: Tensor, v: Tensor, s: Tensor) -> Tensor:
        return (torch.exp(-u) * base + torch.exp(-v) * align + u + v) / 2

    def stationary(self, base: Tensor, align: Tensor, s: Tensor) -> Tensor:
        return ratio(base, align)


@BALANCES.register("coupled")
@dataclass(frozen=True)
class Coupled(Decoupled):
    """Weights and sigmas see one expression, as V10 writes it.

    both see       e^-u B/2 + e^-v A/2 + (u + v)/2
    stationary     sl2 = B, sa2 = A, lambda* = B/A
    consequence    B's gradient is divided by 2 sl2, A's by 2 sa2: the effective lambda is 1/(2 sa2)
    source         V10, seed 001; Kendall, Gal and Cipolla, 2018
    """

    def effective(self, u: Tensor, v: Tensor, s: Tensor) -> Tensor:
        return torch.exp(-v) / 2

    def loss(self, losses: Losses, state: Tensors, anneal: Tensor) -> tuple[Tensor, Tensors]:
        return self.objective(losses.base, losses.align, *log_variances(state), anneal), {}

    def readings(self, losses: Losses, state: Tensors, anneal: Tensor) -> Tensors:
        u, _ = log_variances(state)
        return {**super().readings(losses, state, anneal), "base_weight": torch.exp(-u) / 2}


@BALANCES.register("rescaled")
@dataclass(frozen=True)
class Rescaled(Uncertainty):
    """V10's expression with A annealed, the whole of it times 2 sl2 (detached).

    sigmas see     2 sl2 (e^-u B/2 + s e^-v A/2 + (u + v)/2): V12's objective, 2 sl2 times as fast
    weights see    B + s lambda A
    stationary     sl2 = B, sa2 = s A, lambda* = B/(s A)
    consequence    s lambda* = B/A: annealing cancels itself
    source         V11, seed 000
    """

    schedule: str = schedule_option("linear")

    def objective(self, base: Tensor, align: Tensor, u: Tensor, v: Tensor, s: Tensor) -> Tensor:
        inside = (torch.exp(-u) * base + s * torch.exp(-v) * align + u + v) / 2
        return 2 * torch.exp(u).detach() * inside

    def stationary(self, base: Tensor, align: Tensor, s: Tensor) -> Tensor:
        return ratio(base, s * align)

    def effective(self, u: Tensor, v: Tensor, s: Tensor) -> Tensor:
        return s * torch.exp(u - v)

    def loss(self, losses: Losses, state: Tensors, anneal: Tensor) -> tuple[Tensor, Tensors]:
        return self.objective(losses.base, losses.align, *log_variances(state), anneal), {}
