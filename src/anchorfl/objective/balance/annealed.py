"""A lambda learned and annealed: V11, V12, their cures, and the forms that anneal or punish otherwise.

Notation as in `uncertainty`; s is the schedule's factor, gamma a floor under sa2.
"""

from __future__ import annotations

from dataclasses import dataclass

from anchorfl.objective.balance.base import BALANCES, Balance
from anchorfl.objective.balance.uncertainty import Decoupled, Uncertainty
from anchorfl.objective.maths import N, exp, log1p, ratio, sqrt
from anchorfl.objective.schedules import progress_option, schedule_option
from anchorfl.options import option

GAMMA = "gamma / sa2 is added to what the sigmas see: a floor of 2 gamma under sa2"


def raise_gamma(balance: Balance, gamma: float) -> str:
    return f"Raise align.gamma to {gamma:.2g} or more."


@BALANCES.register("annealed")
@dataclass(frozen=True)
class Annealed(Uncertainty):
    """The sigmas see the annealed align loss, the weights the annealed lambda.

    sigmas see     e^-u B/2 + s e^-v A/2 + (u + v)/2, losses detached
    weights see    B + s lambda A, lambda detached
    stationary     sl2 = B, sa2 = s A, lambda* = B/(s A)
    consequence    s lambda* = B/A: annealing cancels itself, and as s -> 0 or A -> 0 lambda explodes
    source         V12 as diary 002 applies it
    """

    schedule: str = schedule_option("linear")
    progress: str = progress_option()

    def objective(self, base: N, align: N, u: N, v: N, s: N) -> N:
        return (exp(-u) * base + s * exp(-v) * align + u + v) / 2

    def stationary(self, base: N, align: N, s: N) -> N:
        return ratio(base, s * align)

    def effective(self, u: N, v: N, s: N) -> N:
        return s * exp(u - v)


@BALANCES.register("rescaled")
@dataclass(frozen=True)
class Rescaled(Annealed):
    """V10's expression with A annealed, the whole of it times 2 sl2 (detached).

    sigmas see     2 sl2 (e^-u B/2 + s e^-v A/2 + (u + v)/2): V12's objective, 2 sl2 times as fast
    weights see    B + s lambda A
    stationary     sl2 = B, sa2 = s A, lambda* = B/(s A)
    consequence    s lambda* = B/A: annealing cancels itself
    source         V11, diary 000
    """

    def pace(self, u: N) -> N:
        return 2 * exp(u)


@BALANCES.register("annealed-raw")
@dataclass(frozen=True)
class AnnealedRaw(Annealed):
    """The sigmas see the annealed align loss, the weights the whole lambda.

    sigmas see     e^-u B/2 + s e^-v A/2 + (u + v)/2, losses detached
    weights see    B + lambda A, lambda detached
    stationary     sl2 = B, sa2 = s A, lambda* = B/(s A)
    consequence    the weight on A grows as s falls
    source         V12 as diary 003 writes it (its derivation has the sign of v's pull wrong)
    """

    effective = Uncertainty.effective


@BALANCES.register("annealed-gamma")
@dataclass(frozen=True)
class AnnealedGamma(Annealed):
    """V12 with a floor under sa2.

    sigmas see     e^-u B/2 + s e^-v A/2 + (u + v)/2 + gamma e^-v, losses detached
    weights see    B + s lambda A, lambda detached
    stationary     sl2 = B, sa2 = s A + 2 gamma, lambda* = B/(s A + 2 gamma)
    consequence    lambda <= B/(2 gamma), and the effective lambda goes to 0 with s
    source         V12-gamma, proposed in diary 002
    """

    gamma: float = option(0.05, GAMMA, at_least=0)
    cure = raise_gamma

    def objective(self, base: N, align: N, u: N, v: N, s: N) -> N:
        return super().objective(base, align, u, v, s) + self.gamma * exp(-v)

    def stationary(self, base: N, align: N, s: N) -> N:
        return ratio(base, s * align + 2 * self.gamma)


@BALANCES.register("weight-annealed")
@dataclass(frozen=True)
class WeightAnnealed(Decoupled):
    """The sigmas see the whole align loss, the weights the annealed lambda.

    sigmas see     e^-u B/2 + e^-v A/2 + (u + v)/2, losses detached
    weights see    B + s lambda A, lambda detached
    stationary     sl2 = B, sa2 = A, lambda* = B/A, effective s B/A
    consequence    the effective lambda falls with s; still unbounded as A -> 0
    source         proposed at the end of diary 000
    """

    schedule: str = schedule_option("linear")
    progress: str = progress_option()
    effective = Annealed.effective


@BALANCES.register("log-annealed")
@dataclass(frozen=True)
class LogAnnealed(Uncertainty):
    """The reward for a small sa2 is annealed instead of the loss.

    sigmas see     e^-u B/2 + e^-v A/2 + (u + s v)/2, losses detached
    weights see    B + lambda A, lambda detached
    stationary     sl2 = B, sa2 = A/s, lambda* = s B/A
    consequence    falls with s, but relaxes ever more slowly as s -> 0
    source         the later code of the diary
    """

    schedule: str = schedule_option("linear")
    progress: str = progress_option()

    def objective(self, base: N, align: N, u: N, v: N, s: N) -> N:
        return (exp(-u) * base + exp(-v) * align + u + s * v) / 2

    def stationary(self, base: N, align: N, s: N) -> N:
        return ratio(s * base, align)


@BALANCES.register("log-annealed-gamma")
@dataclass(frozen=True)
class LogAnnealedGamma(LogAnnealed):
    """The annealed reward with a floor under sa2.

    sigmas see     e^-u B/2 + e^-v A/2 + (u + s v)/2 + gamma e^-v, losses detached
    weights see    B + lambda A, lambda detached
    stationary     sl2 = B, sa2 = (A + 2 gamma)/s, lambda* = s B/(A + 2 gamma)
    consequence    bounded, and falls with s
    source         log-annealed and V12-gamma together
    """

    gamma: float = option(0.05, GAMMA, at_least=0)
    cure = raise_gamma

    def objective(self, base: N, align: N, u: N, v: N, s: N) -> N:
        return super().objective(base, align, u, v, s) + self.gamma * exp(-v)

    def stationary(self, base: N, align: N, s: N) -> N:
        return ratio(s * base, align + 2 * self.gamma)


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
