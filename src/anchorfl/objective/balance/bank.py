"""V6: A is the contrast with a public feature bank, and time or success sets its weight."""

from __future__ import annotations

from dataclasses import dataclass

from anchorfl.errors import UserError
from anchorfl.objective.balance.base import BALANCES, Balance, ClientFacts, Losses
from anchorfl.objective.maths import ratio
from anchorfl.objective.schedules import Moment
from anchorfl.options import option
from anchorfl.tensors import Tensor, Tensors


@BALANCES.register("stages")
@dataclass(frozen=True)
class Stages(Balance):
    """Two stages in every round: first the contrast alone, then the base loss.

    stage one      a round's first `align.epochs` local epochs: the weights see A
    stage two      the others: the weights see B + later A
    source         V6, diary 004
    """

    later: float = option(0.0, "weight of the contrast in the later epochs of a round", at_least=0)
    epochs: int = option(1, "local epochs of contrast alone at the start of a round", at_least=1)

    def check(self, local_epochs: int) -> None:
        if self.epochs >= local_epochs:
            raise UserError(
                f"align.epochs={self.epochs}: leaves no local training,"
                f" must be below train.local_epochs={local_epochs}"
            )

    def anneal(self, moment: Moment) -> float:
        return 1.0 if moment.local_epoch < self.epochs else 0.0

    def loss(self, losses: Losses, state: Tensors, anneal: Tensor) -> tuple[Tensor, Tensors]:
        local = losses.base + self.later * losses.align
        return anneal * losses.align + (1 - anneal) * local, {}

    def readings(self, losses: Losses, state: Tensors, anneal: Tensor) -> Tensors:
        weight = anneal + (1 - anneal) * self.later
        return {"lambda_effective": weight, "base_weight": 1 - anneal}


@BALANCES.register("curriculum")
@dataclass(frozen=True)
class Curriculum(Balance):
    """The contrast's weight rises over the local epochs and restarts with every round.

    lambda         lambda_min + (lambda_max - lambda_min) * epochs completed in the round / local epochs
    weights see    B + lambda A
    source         V6 curriculum, proposed in diary 004: the one weight here that follows local progress
    """

    lambda_min: float = option(0.1, "weight of the contrast in a round's first epoch", at_least=0)
    lambda_max: float = option(1.0, "weight that it rises towards", at_least=0)

    def anneal(self, moment: Moment) -> float:
        share = moment.local_epoch / moment.local_epochs
        return self.lambda_min + (self.lambda_max - self.lambda_min) * share

    def loss(self, losses: Losses, state: Tensors, anneal: Tensor) -> tuple[Tensor, Tensors]:
        return losses.base + anneal * losses.align, {}

    def readings(self, losses: Losses, state: Tensors, anneal: Tensor) -> Tensors:
        return {"lambda_effective": anneal}


@BALANCES.register("adaptive")
@dataclass(frozen=True)
class Adaptive(Balance):
    """The contrast's weight rises as the classification loss falls.

    lambda         lambda_min + (lambda_max - lambda_min) * clamp(1 - CE/CE_0, 0, 1), detached,
                   CE_0 the client's mean over its first epoch, in which lambda is lambda_min
    weights see    B + lambda A
    source         V6 adaptive, proposed in diary 004 without a formula
    """

    lambda_min: float = option(0.1, "weight of the contrast at first", at_least=0)
    lambda_max: float = option(1.0, "weight at a classification loss of 0", at_least=0)

    def init(self, facts: ClientFacts) -> Tensors:
        import torch

        return {
            "batches": torch.tensor(float(facts.batches)),
            "steps": torch.zeros(()),
            "first_loss": torch.zeros(()),
            "lambda": torch.tensor(self.lambda_min),
        }

    def loss(self, losses: Losses, state: Tensors, anneal: Tensor) -> tuple[Tensor, Tensors]:
        now, steps, first = losses.classification.detach(), state["steps"], state["first_loss"]
        learning = (steps < state["batches"]).float()
        first = first + learning * (now - first) / (steps + 1)
        fallen = (1 - learning) * (1 - ratio(now, first)).clamp(0, 1)
        chosen = self.lambda_min + (self.lambda_max - self.lambda_min) * fallen
        kept = {"steps": steps + 1, "first_loss": first, "lambda": chosen}
        return losses.base + chosen * losses.align, kept

    def readings(self, losses: Losses, state: Tensors, anneal: Tensor) -> Tensors:
        return {"lambda_raw": state["lambda"], "lambda_effective": state["lambda"]}
