"""What a forecast of lambda goes by, and what it finds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from anchorfl.objective.schedules import Moment


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
class Course:
    """A client's way through an experiment; `known` are u and v after round 0, where recorded."""

    rounds: Sequence[RoundMeans]
    class_counts: Sequence[int]
    setting: Setting
    known: tuple[float, float] | None = None
