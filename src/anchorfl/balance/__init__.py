"""Who sets lambda, the weight of the align loss A beside the base loss B.

These modules import torch where they make tensors, so that a forecast can use their formulas without.
"""

from anchorfl.balance import annealed, bank, fixed, uncertainty
from anchorfl.balance.base import BALANCES, Balance, ClientFacts, Losses

__all__ = [
    "BALANCES",
    "Balance",
    "ClientFacts",
    "Losses",
    "annealed",
    "bank",
    "fixed",
    "uncertainty",
]


@BALANCES.family("torchjd")
def scalarized(name: str) -> type[Balance]:
    from anchorfl.balance import scalarizer

    return scalarizer.scalarized(name)
