"""Who sets lambda, the weight of the align loss A beside the base loss B.

These modules import torch where they make tensors, so that a forecast can use their formulas without.
"""

from anchorfl.objective.balance.base import BALANCES, Balance


@BALANCES.family("torchjd")
def scalarized(name: str) -> type[Balance]:
    """Imported when asked for: it needs torch and the extra."""
    from anchorfl.objective.balance import scalarizer

    return scalarizer.scalarized(name)
