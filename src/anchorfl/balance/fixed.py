"""A lambda that nobody learns."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from anchorfl.balance.base import BALANCES, Balance
from anchorfl.options import option
from anchorfl.tensors import Tensors


@BALANCES.register("none")
@dataclass(frozen=True)
class NoAlignment(Balance):
    """The weights see B alone (V4, seed 004)."""

    def loss(
        self, base: Tensor, align: Tensor, state: Tensors, anneal: Tensor
    ) -> tuple[Tensor, Tensors]:
        return base, {}


@BALANCES.register("fixed")
@dataclass(frozen=True)
class Fixed(Balance):
    """The weights see B + s(p) lambda A with one lambda for all clients (V7, seed 001)."""

    schedule: str = option(
        "constant",
        "s(p), the annealing over global progress: constant, linear, cosine",
        choices=("constant", "linear", "cosine"),
    )
    lambda_: float = option(5.0, "weight of the align loss", at_least=0)

    def loss(
        self, base: Tensor, align: Tensor, state: Tensors, anneal: Tensor
    ) -> tuple[Tensor, Tensors]:
        raw = anneal.new_full((), self.lambda_)
        effective = anneal * raw
        return base + effective * align, {"lambda_raw": raw, "lambda_effective": effective}
