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
FINEST, FIRST, COARSEST = -8, -5, 4
"""Penalties are tried in half decades: shares of the mean square from 1e-4 to 100."""
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
    """W ~ (X'X / n + r I)^-1 X'Y / n, r the penalty.

    Scaled so that x W at the row's own class, tr(W' X'Y) / n, is 1 on average: scores then mean the
    same for ten classes and for a hundred. The sums are exact, so W does not depend on how the rows
    are spread over clients.
    """
    weights: Tensor = torch.linalg.solve(raised(sums.gram / sums.rows, penalty), sums.cross)
    return in_true_scores(weights, sums)


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

    (RSS / TSS) / (1 - df / n)^2, with df = tr(X'X (X'X + n r I)^-1) and, for unit rows Y,
    RSS = n - tr(W'X'Y) - n r |W|^2 (Golub, Heath and Wahba, 1979). Infinite where rounding has left
    the sums a negative direction that the penalty does not cover.
    """
    rows, size = sums.rows, float(sums.rows) * penalty
    factor, failed = torch.linalg.cholesky_ex(raised(sums.gram, size))
    if failed:
        return math.inf
    inverse = torch.cholesky_inverse(factor)
    weights = inverse @ sums.cross
    freedom = len(sums.cross) - size * inverse.trace()
    left = rows - (weights * sums.cross).sum() - size * weights.square().sum()
    total = (rows - sums.counts.square().sum() / rows).clamp(min=1e-12)
    share = left / total / (1 - freedom / rows).clamp(min=1e-6) ** 2
    return float(share) if left >= 0 else math.inf


class Fit(NamedTuple):
    """The penalty to take, and the share R^2 of the labels that is explained on rows not seen."""

    penalty: float
    explained: float


def best_fit(sums: Sums) -> Fit:
    """Half a decade under the penalty that errs least on unseen rows, as far as rounding allows.

    That one is found downhill from a share of the mean square, half a decade at a time.
    """
    unit = sums.mean_square

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
    while step < COARSEST and not covers(sums, unit * HALF_A_DECADE**step):
        step += 1
    return Fit(unit * HALF_A_DECADE**step, explained)


def covers(sums: Sums, penalty: float) -> bool:
    """Whether it leaves no negative direction of those that rounding has made."""
    _, within = sums.within
    raised_squares = (raised(squares, penalty) for squares in (sums.gram / sums.rows, within))
    return all(not torch.linalg.cholesky_ex(each)[1] for each in raised_squares)
