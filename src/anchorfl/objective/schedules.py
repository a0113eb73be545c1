"""s(p): how a weight falls from 1 to 0 over the progress p in [0, 1] of the whole run."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from anchorfl.options import option
from anchorfl.registry import Registry

Schedule = Callable[[float], float]
SCHEDULES: Registry[Schedule] = Registry("schedule")


@SCHEDULES.register("constant")
def constant(progress: float) -> float:
    return 1.0


@SCHEDULES.register("linear")
def linear(progress: float) -> float:
    """1 - p."""
    return 1.0 - progress


@SCHEDULES.register("cosine")
def cosine(progress: float) -> float:
    """(1 + cos(pi p)) / 2."""
    return 0.5 * (1.0 + math.cos(math.pi * progress))


def schedule_option(default: str) -> Any:
    words = "anneal factor s(p) over the run's progress p: constant, linear, cosine"
    return option(default, words, choices=SCHEDULES)


def progress_option() -> Any:
    words = "what s(p) follows: epochs completed, or rounds completed: epoch, round"
    return option("epoch", words, choices=("epoch", "round"))


@dataclass(frozen=True)
class Moment:
    """Where a client stands: the epoch it is about to train, of all its epochs, and of a round's."""

    epoch: int
    epochs: int
    local_epochs: int

    @property
    def progress(self) -> float:
        """Global: epochs completed / all epochs of the run. It never restarts."""
        return self.epoch / self.epochs

    @property
    def round_progress(self) -> float:
        """Rounds completed / all rounds of the run: constant within a round."""
        return (self.epoch - self.local_epoch) / self.epochs

    @property
    def local_epoch(self) -> int:
        """Epochs completed in this round."""
        return self.epoch % self.local_epochs
