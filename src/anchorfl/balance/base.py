"""What a balance is: the shape that the training loop knows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from torch import Tensor

from anchorfl.registry import Registry
from anchorfl.tensors import Tensors


@dataclass(frozen=True)
class ClientFacts:
    """What a balance may know of its client before training."""

    class_counts: Tensor


@dataclass(frozen=True)
class Balance(ABC):
    """Turns B and A into the loss whose single backward moves weights and balance alike.

    The fields of a subclass are its options, `align.NAME` on the command line. `loss` works on
    tensors only, so that it can be compiled and stacked over clients. `schedule` names s(p); a
    balance that can be annealed makes it one of its options.
    """

    schedule = "constant"

    def init(self, facts: ClientFacts) -> Tensors:
        """The tensors that the balance keeps in the client's state.

        Those that require a gradient are trained beside the weights; the others are constants.
        """
        return {}

    @abstractmethod
    def loss(
        self, base: Tensor, align: Tensor, state: Tensors, anneal: Tensor
    ) -> tuple[Tensor, Tensors]:
        """(loss, readings): readings are the client event's lambda fields, as tensors."""


BALANCES: Registry[type[Balance]] = Registry("balance", "anchorfl.balance")
