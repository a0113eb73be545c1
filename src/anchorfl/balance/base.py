"""What a balance is: the shape that the training loop knows."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from anchorfl.errors import UserError
from anchorfl.options import option
from anchorfl.registry import Registry
from anchorfl.schedules import SCHEDULES, Moment

if TYPE_CHECKING:
    from torch import Tensor

    from anchorfl.tensors import Tensors


@dataclass(frozen=True)
class ClientFacts:
    """What a balance may know of its client before training."""

    class_counts: Tensor
    batches: int


class Losses(NamedTuple):
    """A step's losses: B, A, and the part of B that is CE(f P', y)."""

    base: Tensor
    align: Tensor
    classification: Tensor


@dataclass(frozen=True)
class Balance(ABC):
    """Turns B and A into the loss whose single backward moves weights and balance alike.

    The fields of a subclass are its options, `align.NAME` on the command line. `loss` and `readings`
    work on tensors only, so that they can be compiled and stacked over clients. `schedule` names
    s(p); a balance that can be annealed makes it one of its options.
    """

    schedule = "constant"

    def check(self, local_epochs: int) -> None:
        """Raise a UserError where the options do not fit each other or the experiment."""
        low, high = getattr(self, "lambda_min", 0.0), getattr(self, "lambda_max", math.inf)
        if low > high:
            raise UserError(f"align.lambda_min={low}: must not be above align.lambda_max={high}")

    def init(self, facts: ClientFacts) -> Tensors:
        """The tensors that the balance keeps in the client's state.

        Those that require a gradient are trained beside the weights; the others `loss` may replace.
        """
        return {}

    def sgd(self, lr: float, momentum: float) -> tuple[float, float]:
        """Learning rate and momentum of its trained tensors, given the weights'."""
        return lr, momentum

    def anneal(self, moment: Moment) -> float:
        """s in an epoch."""
        return SCHEDULES[self.schedule](moment.progress)

    @abstractmethod
    def loss(self, losses: Losses, state: Tensors, anneal: Tensor) -> tuple[Tensor, Tensors]:
        """(loss, kept): `kept` are new values of the balance's tensors that are not trained."""

    def after_first_round(self, losses: Losses) -> Tensors:
        """New values of untrained tensors when a client's first round is over, by its mean losses."""
        return {}

    def readings(self, losses: Losses, state: Tensors, anneal: Tensor) -> Tensors:
        """What a client's event says of lambda, from a round's mean losses and its last state."""
        return {}


BALANCES: Registry[type[Balance]] = Registry("balance", "anchorfl.balance")


def schedule_option(default: str) -> str:
    chosen: str = option(
        default,
        "s(p), the annealing over global progress: constant, linear, cosine",
        choices=tuple(SCHEDULES),
    )
    return chosen
