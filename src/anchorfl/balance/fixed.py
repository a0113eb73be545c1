"""A lambda that nobody learns."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from anchorfl.balance.base import BALANCES, Balance, ClientFacts, Losses, schedule_option
from anchorfl.options import option

if TYPE_CHECKING:
    from torch import Tensor

    from anchorfl.tensors import Tensors


@BALANCES.register("none")
@dataclass(frozen=True)
class NoAlignment(Balance):
    """No lambda.

    weights see    B
    source         V4, seed 004
    """

    def loss(self, losses: Losses, state: Tensors, anneal: Tensor) -> tuple[Tensor, Tensors]:
        return losses.base, {}


@dataclass(frozen=True)
class Given(Balance):
    """A lambda that a client starts with and nothing moves."""

    schedule: str = schedule_option("constant")

    @abstractmethod
    def given(self, class_counts: Sequence[int]) -> float:
        """The lambda of a client with these samples."""

    def init(self, facts: ClientFacts) -> Tensors:
        import torch

        return {"lambda": torch.tensor(self.given(facts.class_counts.tolist()))}

    def loss(self, losses: Losses, state: Tensors, anneal: Tensor) -> tuple[Tensor, Tensors]:
        return losses.base + anneal * state["lambda"] * losses.align, {}

    def readings(self, losses: Losses, state: Tensors, anneal: Tensor) -> Tensors:
        return {"lambda_raw": state["lambda"], "lambda_effective": anneal * state["lambda"]}


@BALANCES.register("fixed")
@dataclass(frozen=True)
class Fixed(Given):
    """One lambda for all clients.

    weights see    B + s lambda A
    source         V7, seeds 001 and 000
    """

    lambda_: float = option(5.0, "weight of the align loss", at_least=0)

    def given(self, class_counts: Sequence[int]) -> float:
        return self.lambda_


@BALANCES.register("entropy")
@dataclass(frozen=True)
class Entropy(Given):
    """A lambda for each client, from the entropy H of its labels in bits, C classes.

    lambda         lambda_min + (lambda_max - lambda_min) H / log2 C
    weights see    B + s lambda A
    source         V9, seeds 001 and 000 (the formula is inferred from seed 001's table)
    """

    lambda_min: float = option(0.1, "lambda of a client with a single class", at_least=0)
    lambda_max: float = option(10.0, "lambda of a client with all classes alike", at_least=0)

    def given(self, class_counts: Sequence[int]) -> float:
        return entropy_lambda(class_counts, self.lambda_min, self.lambda_max)


def entropy_lambda(class_counts: Sequence[int], smallest: float, largest: float) -> float:
    """V9's lambda of a client: linear in the normalised entropy of its labels."""
    shares = [count / sum(class_counts) for count in class_counts if count]
    entropy = -sum(share * math.log(share) for share in shares) / math.log(len(class_counts))
    return smallest + (largest - smallest) * entropy
