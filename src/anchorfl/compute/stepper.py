"""How a client's steps are carried out: a stepper is given the step to take and knows no method."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from itertools import pairwise

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
        self.sums = torch.zeros(())
        self.marks: list[Tensor] | None = None
        self.sizes: list[int] = []

    def take(self, batch: Batch, lr: Tensor, anneal: Tensor) -> None:
        """One step; its readings, each times the number of samples, are added up."""
        self._take(batch, lr, anneal)
        if self.marks is not None:
            self.marks.append(self.sums.clone())
            self.sizes.append(len(batch.labels))

    def _take(self, batch: Batch, lr: Tensor, anneal: Tensor) -> None:
        measured = self.step(self.state, batch, lr, anneal)
        values = torch.stack(list(measured.values())) * batch.size()
        if not self.names:
            self.names, self.sums = list(measured), torch.zeros_like(values)
        self.sums += values

    def follow(self) -> Steps:
        """From here on, keep what every step adds to the sums."""
        self.marks, self.sizes = [self.sums.clone()], []
        return self

    def readings(self) -> dict[str, list[float]]:
        """Of every step since `follow`, not only their sums; reading them waits."""
        added = [after - before for before, after in pairwise(self.marks or ())]
        values = torch.stack(added).cpu() / torch.tensor(self.sizes)[:, None]
        return dict(zip(self.names, values.T.tolist(), strict=True))

    def finish(self) -> Tensors:
        """The sums of the readings; from here on the client's state is up to date."""
        return dict(zip(self.names, self.sums.clone().unbind(), strict=True))


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
