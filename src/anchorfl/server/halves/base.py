"""The server's half of a method of many rounds: what it sends down after a round."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from anchorfl.wire import Task, Upload


class ServerHalf(ABC):
    """`mixes` states whether sites may have different encoders."""

    mixes: ClassVar[bool] = False

    @abstractmethod
    def step(self, task: Task, uploads: Sequence[Upload]) -> Task:
        """The task of the next round, from the one before and what came up for it."""
