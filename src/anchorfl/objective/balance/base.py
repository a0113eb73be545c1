"""What a balance is: what the training loop asks of it, and what forecast, guard and verdicts ask."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from anchorfl.errors import UserError
from anchorfl.objective.course import Course, Point
from anchorfl.objective.maths import N, ratio
from anchorfl.objective.schedules import SCHEDULES, Moment
from anchorfl.registry import Registry
from anchorfl.tensors import Tensor, Tensors

EXPLODED = 10.0
"""An effective lambda of this many yardsticks has exploded."""


def yardstick(base: N, align: N) -> N:
    """B/A of a client's round 0, where a learned lambda first settles: what lambda is measured by."""
    return ratio(base, align)


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
    s(p); a balance that can be annealed makes it one of its options, and `guard` likewise.

    `learned`: lambda follows the losses by sigmas of its own and may run away. `divides_base`: B
    itself is divided by something learned.
    """

    learned: ClassVar[bool] = False
    divides_base: ClassVar[bool] = False
    schedule = "constant"
    progress = "epoch"
    guard = "off"

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
        by_round = self.progress == "round"
        return SCHEDULES.get(self.schedule)(moment.round_progress if by_round else moment.progress)

    @abstractmethod
    def loss(self, losses: Losses, state: Tensors, anneal: Tensor) -> tuple[Tensor, Tensors]:
        """(loss, kept): `kept` are new values of the balance's tensors that are not trained."""

    def after_first_round(self, losses: Losses) -> Tensors:
        """New values of untrained tensors when a client's first round is over, by its mean losses."""
        return {}

    def readings(self, losses: Losses, state: Tensors, anneal: Tensor) -> Tensors:
        """What a client's event holds of lambda, from a round's mean losses and its last state."""
        return {}

    @property
    def starts_from_labels(self) -> bool:
        """Whether lambda cannot be foreseen without a client's class counts."""
        return False

    def stationary(self, base: N, align: N, s: N) -> N | None:
        """The raw lambda at which these losses would leave it, if there is one."""
        return None

    def cure(self, gamma: float) -> str:
        """What to do against a lambda that ran away, where a floor of 2 gamma would hold it."""
        return ""

    def forecast(self, course: Course) -> list[Point]:
        """Lambda at the end of every round."""
        raise UserError("this method has no lambda that can be forecast")

    def last_factors(self, course: Course) -> list[float]:
        """s in the last epoch of every round."""
        moments = map(course.setting.last_moment, range(len(course.rounds)))
        return [self.anneal(moment) for moment in moments]


MODULES = ("annealed", "bank", "closed_form")
"""Where this package's own balances are registered."""
BALANCES: Registry[type[Balance]] = Registry(
    "balance", *(f"anchorfl.objective.balance.{name}" for name in MODULES)
)
