"""Regression and discriminant analysis on sums, as strict as the sums themselves ask for.

Generalised cross-validation states by which penalty a regression errs least on rows that it has not
seen. Classes are told apart best with less: half a decade, on held-out images of five data sets.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache, cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from anchorfl.describe.moments import full_gram, wide
from anchorfl.tensors import Tensors

HALF_A_DECADE = 10**0.5
FINEST, FIRST, COARSEST = -8, -3, 4
"""Penalties are tried in half decades: shares of the mean variance from 1e-4 to 100."""
MOST_EXPLAINED = 0.95
"""R^2 of few rows may come out at 1, by chance."""
LEAST = 1e-12
"""A mean square or variance is no smaller, so that a share of it is above 0."""


@dataclass(frozen=True)
class Sums:
    """X'X and X'Y of n rows [x 1] and their unit labels Y, in double precision."""

    gram: Tensor
    cross: Tensor

    @classmethod
    def of(cls, moments: Tensors) -> Sums:
        cross = wide(moments["cross"])
        return cls(full_gram(moments["triangle"], len(cross)), cross)

    @property
    def counts(self) -> Tensor:
        """Of the classes."""
        return self.cross[-1]

    @property
    def rows(self) -> Tensor:
        """n, at least 1."""
        return self.counts.sum().clamp(min=1)

    @cached_property
    def within(self) -> tuple[Tensor, Tensor]:
        """Class means, D x C, and S = (X'X - sum_c n_c m_c m_c') / n, D x D."""
        sums = self.cross[:-1]
        means = sums / self.counts.clamp(min=1)
        return means, (self.gram[:-1, :-1] - means @ sums.T) / self.rows

    @cached_property
    def between(self) -> Tensor:
        """p_c (m_c - m), D x C, with p_c the classes' shares and m the mean of all rows."""
        means, _ = self.within
        shares = self.counts / self.rows
        return (means - (means @ shares)[:, None]) * shares

    @cached_property
    def covariance(self) -> Tensor:
        """Of all rows: S + sum_c p_c (m_c - m) (m_c - m)'."""
        means, within = self.within
        return within + self.between @ means.T

    @property
    def mean_square(self) -> float:
        """Of all numbers in the rows."""
        return max(float(self.gram.diagonal().mean() / self.rows), LEAST)

    @property
    def mean_variance(self) -> float:
        """Of all numbers within classes."""
        return max(float(self.within[1].diagonal().mean()), LEAST)

    @cached_property
    def fit(self) -> Fit:
        return best_fit(self)


def ridge(sums: Sums, penalty: float) -> Tensor:
    """Ridge regression of the labels: W for rows [x 1].

    Slopes (T + r I)^-1 X'Y / n of centred rows and labels, T the covariance of all rows and r the
    penalty; the constant is not penalised. Scaled so that a row's own class has 1 on average: scores
    then mean the same for ten classes and for a hundred. The sums are exact, so W does not depend on
    how the rows are spread over clients.
    """
    means, _ = sums.within
    shares = sums.counts / sums.rows
    slopes: Tensor = torch.linalg.solve(raised(sums.covariance, penalty), sums.between)
    levels = shares - (means @ shares) @ slopes
    return in_true_scores(torch.cat([slopes, levels[None]]), sums)


def discriminant(sums: Sums, penalty: float) -> Tensor:
    """Linear discriminant analysis: W for rows [x 1], as ridge's.

    Scores are x (S + r I)^-1 m_c - m_c' (S + r I)^-1 m_c / 2 + log(n_c / n), less their mean over the
    classes, S the covariance within classes, r the penalty (Friedman, 1989). Scaled so that a row's
    own class has 1 on average; a class without samples has 0 everywhere.
    """
    known = sums.counts > 0
    means, within = sums.within
    slopes = torch.linalg.solve(raised(within, penalty), means)
    levels = (sums.counts.clamp(min=1) / sums.rows).log() - (means * slopes).sum(dim=0) / 2
    weights = torch.cat([slopes, levels[None]]) * known
    weights = (weights - weights.sum(dim=1, keepdim=True) / known.sum().clamp(min=1)) * known
    if known.sum() == 1:
        weights[-1] = known.to(weights)
    return in_true_scores(weights, sums)


def raised(squares: Tensor, penalty: float) -> Tensor:
    return squares + penalty * torch.eye(len(squares), dtype=squares.dtype, device=squares.device)


def in_true_scores(weights: Tensor, sums: Sums) -> Tensor:
    """In units of what a row's own class has on average."""
    true_score = (weights * sums.cross).sum() / sums.rows
    return (weights / true_score.clamp(min=1e-6)).float().contiguous()


def unexplained(sums: Sums, penalty: float) -> float:
    """1 - R^2 of that ridge regression on rows it has not seen, by generalised cross-validation.

    (RSS / TSS) / (1 - df / n)^2, with slopes W, df = 1 + tr(T (T + r I)^-1), TSS = n - sum_c n_c^2 / n
    for unit labels and RSS = TSS - n tr(W'X'Y / n) - n r |W|^2 (Golub, Heath and Wahba, 1979). Infinite
    where T has a negative direction that the penalty does not cover.
    """
    squares = raised(sums.covariance, penalty)
    factor, failed = torch.linalg.cholesky_ex(squares)
    if failed:
        return math.inf
    inverse = torch.cholesky_inverse(factor)
    slopes = inverse @ sums.between
    freedom = 1 + len(inverse) - penalty * inverse.trace()
    total = (1 - (sums.counts / sums.rows).square().sum()).clamp(min=LEAST)
    left = total - (slopes * sums.between).sum() - penalty * slopes.square().sum()
    share = left / total / (1 - freedom / sums.rows).clamp(min=1e-6) ** 2
    return float(share) if left >= 0 else math.inf


class Fit(NamedTuple):
    """The penalty to take, and the share R^2 of the labels that is explained on rows not seen."""

    penalty: float
    explained: float


def best_fit(sums: Sums) -> Fit:
    """Half a decade under the penalty that errs least on unseen rows, as far as rounding allows.

    That one is found downhill from a share of the mean variance, half a decade at a time.
    """
    unit = max(float(sums.covariance.diagonal().mean()), LEAST)

    @cache
    def error(step: int) -> float:
        return unexplained(sums, unit * HALF_A_DECADE**step)

    step = FIRST
    while step < COARSEST and error(step + 1) <= error(step):
        step += 1
    while step > FINEST and error(step - 1) < error(step):
        step -= 1
    explained = min(max(1 - error(step), 0.0), MOST_EXPLAINED)
    step -= 1
    _, within = sums.within  # rounding may have made a direction of it negative
    while step < COARSEST and torch.linalg.cholesky_ex(raised(within, unit * HALF_A_DECADE**step))[1]:
        step += 1
    return Fit(unit * HALF_A_DECADE**step, explained)
