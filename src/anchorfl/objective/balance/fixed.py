"""No lambda (V4), and one lambda for all clients (V7)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from anchorfl.objective.balance.base import (
    Balance,
    ClientFacts,
    Losses,
    Point,
    RoundMeans,
    Setting,
    progress_option,
    schedule_option,
)
from anchorfl.options import option
from anchorfl.registry import BALANCES

if TYPE_CHECKING:
    from torch import Tensor

    from anchorfl.tensors import Tensors


@BALANCES.register("none")
@dataclass(frozen=True)
class NoAlignment(Balance):
    """No lambda.

    weights see    B
    source         V4, diary 004
    """

    def loss(self, losses: Losses, state: Tensors, anneal: Tensor) -> tuple[Tensor, Tensors]:
        return losses.base, {}


@dataclass(frozen=True)
class Given(Balance):
    """A lambda that a client starts with and nothing moves."""

    schedule: str = schedule_option("constant")
    progress: str = progress_option()

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

    def forecast(
        self,
        rounds: Sequence[RoundMeans],
        class_counts: Sequence[int],
        setting: Setting,
        known: tuple[float, float] | None,
    ) -> list[Point]:
        raw = self.given(class_counts)
        factors = [self.anneal(setting.last_moment(number)) for number in range(len(rounds))]
        return [Point(number, raw, s * raw, None) for number, s in enumerate(factors)]


@BALANCES.register("fixed")
@dataclass(frozen=True)
class Fixed(Given):
    """One lambda for all clients.

    weights see    B + s lambda A
    source         V7, diary 001 and 000
    """

    lambda_: float = option(5.0, "weight of the align loss", at_least=0)

    def given(self, class_counts: Sequence[int]) -> float:
        return self.lambda_
