"""No lambda (V4), and one lambda for all clients (V7)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from anchorfl.objective.balance.base import BALANCES, Balance, ClientFacts, Losses
from anchorfl.objective.course import Course, Point
from anchorfl.objective.schedules import progress_option, schedule_option
from anchorfl.options import option
from anchorfl.tensors import Tensor, Tensors


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

    def forecast(self, course: Course) -> list[Point]:
        raw = self.given(course.class_counts)
        return [Point(k, raw, s * raw, None) for k, s in enumerate(self.last_factors(course))]


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
