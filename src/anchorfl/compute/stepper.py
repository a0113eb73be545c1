"""How a client's steps are carried out: a stepper is given the step to take and knows no method."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import torch
from torch import Tensor

from anchorfl.compute.batch import Batch
from anchorfl.tensors import Tensors

Step = Callable[[Tensors, Batch, Tensor, Tensor], Tensors]
"""(state, batch, learning rate, s) -> readings; moves the state in place."""


class Steps:
    """One client's steps in a round, eager: each is taken when given, on the client's own state."""

    def __init__(self, step: Step, state: Tensors) -> None:
        self.step, self.state = step, state
        self.names: list[str] = []
        self.sums: Tensor | None = None
        self.trail: Trail | None = None

    def take(self, batch: Batch, lr: Tensor, anneal: Tensor) -> None:
        """One step; its readings, each times the number of samples, are added up."""
        self._take(batch, lr, anneal)
        if self.trail is not None:
            self.trail.add(len(batch.labels))

    def _take(self, batch: Batch, lr: Tensor, anneal: Tensor) -> None:
        measured = self.step(self.state, batch, lr, anneal)
        values = torch.stack(list(measured.values())) * batch.size()
        if self.sums is None:
            self.names, self.sums = list(measured), torch.zeros_like(values)
        self.sums += values

    def follow(self) -> Trail:
        """From here on, keep what every step adds to the sums."""
        self.trail = Trail(self)
        return self.trail

    def finish(self) -> Tensors:
        """The sums of the readings; from here on the client's state is up to date."""
        assert self.sums is not None
        return dict(zip(self.names, self.sums.clone().unbind(), strict=True))


class Trail:
    """The readings of every step since it was begun, not only their sums; reading them waits."""

    def __init__(self, steps: Steps) -> None:
        self.steps = steps
        self.marks = [] if steps.sums is None else [steps.sums.clone()]
        self.sizes: list[int] = []

    def add(self, samples: int) -> None:
        assert self.steps.sums is not None
        if not self.marks:
            self.marks.append(torch.zeros_like(self.steps.sums))
        self.marks.append(self.steps.sums.clone())
        self.sizes.append(samples)

    def readings(self) -> dict[str, list[float]]:
        values = torch.stack(self.marks).diff(dim=0).cpu() / torch.tensor(self.sizes)[:, None]
        return dict(zip(self.steps.names, values.T.tolist(), strict=True))


class Stepper(ABC):
    """Opens a client's steps; `trouble` states why they run slower than they could, if so."""

    trouble: str | None = None

    @abstractmethod
    def steps(
        self, step: Step, client: int, state: Tensors, samples: int, batch: int
    ) -> AbstractContextManager[Steps]:
        """The steps of a client, by its number, its samples and its largest batch."""

    def close(self) -> None:
        """Give back what the steps held."""
        return


class EagerStepper(Stepper):
    """Eager steps on the client's own state, on any device."""

    @contextmanager
    def steps(
        self, step: Step, client: int, state: Tensors, samples: int, batch: int
    ) -> Iterator[Steps]:
        yield Steps(step, state)
