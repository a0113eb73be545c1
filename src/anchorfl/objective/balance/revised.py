"""Uncertainties with a penalty that stays positive (Liebel and Koerner, 2018)."""

from __future__ import annotations

from dataclasses import dataclass

from anchorfl.objective.balance.annealed import Annealed
from anchorfl.objective.balance.base import progress_option, schedule_option
from anchorfl.objective.balance.uncertainty import Uncertainty
from anchorfl.objective.maths import N, exp, log1p, ratio, sqrt
from anchorfl.registry import BALANCES


@BALANCES.register("revised")
@dataclass(frozen=True)
class Revised(Uncertainty):
    """Uncertainties whose penalty log(1 + x) stays above 0; x = e^u for B, e^v for A.

    sigmas see     L/(2 x) + log(1 + x) for each loss L, detached
    weights see    B + s lambda A, lambda detached
    stationary     x = (L + sqrt(L^2 + 8 L))/4, lambda* = x(B)/x(A)
    consequence    lambda grows as A^-1/2: slower, not bounded
    source         Liebel and Koerner, 2018
    """

    schedule: str = schedule_option("linear")
    progress: str = progress_option()

    def objective(self, base: N, align: N, u: N, v: N, s: N) -> N:
        return revised(base, u) + revised(align, v)

    def stationary(self, base: N, align: N, s: N) -> N:
        return ratio(revised_variance(base), revised_variance(align))

    effective = Annealed.effective


def revised(loss: N, logarithm: N) -> N:
    return loss * exp(-logarithm) / 2 + log1p(exp(logarithm))


def revised_variance(loss: N) -> N:
    return (loss + sqrt(loss * loss + 8 * loss)) / 4
