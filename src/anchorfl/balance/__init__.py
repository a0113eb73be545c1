"""Who sets lambda, the weight of the align loss A beside the base loss B."""

from anchorfl.balance.base import BALANCES, Balance, ClientFacts
from anchorfl.balance.fixed import Fixed, NoAlignment

__all__ = ["BALANCES", "Balance", "ClientFacts", "Fixed", "NoAlignment"]
