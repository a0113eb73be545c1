"""What a balance is: what the training loop asks of it, and what forecast, guard and verdicts ask."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from anchorfl.errors import UserError
from anchorfl.objective.maths import N, ratio
from anchorfl.objective.schedules import Moment
from anchorfl.options import option
from anchorfl.registry import SCHEDULES

if TYPE_CHECKING:
    from torch import Tensor

    from anchorfl.tensors import Tensors

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
class RoundMeans:
    """A round as a forecast sees it: mean losses, the clip factor of the sigmas, steps."""

    base: float
    align: float
    clip: float = 1.0
    steps: int = 40


@dataclass(frozen=True)
class Point:
    """A forecast lambda at the end of a round."""

    round: int
    raw: float
    effective: float
    stationary: float | None


@dataclass(frozen=True)
class Setting:
    """What of an experiment a lambda feels beside the losses."""

    rounds: int
    local_epochs: int = 1
    reset_optimizer: bool = False
    rate: Callable[[float], float] = lambda progress: 1.0

    def moment(self, epoch: int) -> Moment:
        return Moment(epoch, self.rounds * self.local_epochs, self.local_epochs)

    def last_moment(self, number: int) -> Moment:
        """The last epoch of a round."""
        return self.moment((number + 1) * self.local_epochs - 1)


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

    def forecast(
        self,
        rounds: Sequence[RoundMeans],
        class_counts: Sequence[int],
        setting: Setting,
        known: tuple[float, float] | None,
    ) -> list[Point]:
        """Lambda at the end of every round; `known` are u and v after round 0, where recorded."""
        raise UserError("this method has no lambda that can be forecast")


def progress_option() -> str:
    chosen: str = option(
        "epoch",
        "what s(p) follows: epochs completed, or rounds completed: epoch, round",
        choices=("epoch", "round"),
    )
    return chosen


def schedule_option(default: str) -> str:
    chosen: str = option(
        default,
        "anneal factor s(p) over the run's progress p: constant, linear, cosine",
        choices=SCHEDULES,
    )
    return chosen
