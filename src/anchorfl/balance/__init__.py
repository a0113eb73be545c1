"""Who sets lambda, the weight of the align loss A beside the base loss B."""

from anchorfl.balance import annealed, bank, fixed, scalarizer, uncertainty
from anchorfl.balance.base import BALANCES, Balance, ClientFacts, Losses

__all__ = [
    "BALANCES",
    "Balance",
    "ClientFacts",
    "Losses",
    "annealed",
    "bank",
    "fixed",
    "scalarizer",
    "uncertainty",
]
