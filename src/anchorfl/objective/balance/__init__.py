"""Who sets lambda, the weight of the align loss A beside the base loss B.

These modules import torch where they make tensors, so that a forecast can use their formulas without.
"""

from anchorfl.objective.balance import annealed, bank, closed_form, revised
from anchorfl.objective.balance.base import (
    EXPLODED,
    Balance,
    ClientFacts,
    Losses,
    Point,
    RoundMeans,
    Setting,
    yardstick,
)
from anchorfl.objective.balance.entropy import label_entropy
from anchorfl.objective.balance.fixed import Given, NoAlignment
from anchorfl.objective.balance.uncertainty import Uncertainty
from anchorfl.registry import BALANCES

__all__ = [
    "EXPLODED",
    "Balance",
    "ClientFacts",
    "Given",
    "Losses",
    "NoAlignment",
    "Point",
    "RoundMeans",
    "Setting",
    "Uncertainty",
    "annealed",
    "bank",
    "closed_form",
    "label_entropy",
    "revised",
    "yardstick",
]


@BALANCES.family("torchjd")
def scalarized(name: str) -> type[Balance]:
    """Imported when asked for: it needs torch and the extra."""
    from anchorfl.objective.balance import scalarizer

    return scalarizer.scalarized(name)
