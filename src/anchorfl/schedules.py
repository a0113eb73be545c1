"""s(p): how a weight falls from 1 to 0 over the progress p in [0, 1] of the whole run."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

SCHEDULES: dict[str, Callable[[float], float]] = {
    "constant": lambda progress: 1.0,
    "linear": lambda progress: 1.0 - progress,
    "cosine": lambda progress: 0.5 * (1.0 + math.cos(math.pi * progress)),
}


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
    def local_epoch(self) -> int:
        """Epochs completed in this round."""
        return self.epoch % self.local_epochs
