"""Whether tensors can be the statistics that they are said to be: what holds of all true ones.

Each function returns why they cannot, or None. Rows have norm 1 at most, so that sums over n of them
are bounded by n; sums of squares have no negative direction. Nothing here can find a lie that keeps
to the rules, such as true sums of wrong labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from anchorfl.describe.moments import full_gram, wide
from anchorfl.tensors import Tensors

TOLERANCE = 1e-3
"""Relative: single precision over many samples, and the reduced precision of a GPU's products."""


@dataclass(frozen=True)
class Claim:
    """What a server knows of the samples that a statistic is said to be of.

    `counts` (C) are the site's samples by class, 0 for a class of too few; `widths` those of the
    encoders in question, `described` that of a description.
    """

    counts: Tensor
    widths: Sequence[int]
    described: int


def doubt_in_means(mean: Tensor, counts: Tensor) -> str | None:
    """Class means of rows of norm 1, C x d; `counts` are 0 for a class that has none."""
    norms = wide(mean).norm(dim=1)
    if (norms > 1 + TOLERANCE).any():
        return f"a class mean has norm {float(norms.max()):.4g}, above 1"
    if norms[(counts == 0).to(norms.device)].any():
        return "a class mean is there of a class without samples"
    return None


def doubt_in_feature_moments(mean: Tensor, square: Tensor) -> str | None:
    """Mean and mean square of each entry of rows of norm 1: square >= mean^2, squares add up to 1."""
    if (wide(square) < wide(mean) ** 2 - TOLERANCE).any():
        return "a mean square is below the squared mean"
    if float(wide(square).sum()) > 1 + TOLERANCE:
        return f"mean squares add up to {float(wide(square).sum()):.4g}, above 1"
    return None


def doubt_in_moments(moments: Tensors, counts: Tensor, norm: float) -> str | None:
    """X'X and X'Y of n rows [x 1] with |x|^2 <= norm and unit labels Y; `counts` by class add up to n.

    The last column of X'X is the sum of all rows, which is X'Y summed over the classes; its last entry
    is n and the last row of X'Y the counts. tr X'X <= n (norm + 1), X'X >= 0, and a class's sum of
    rows is at most as long as its count allows.
    """
    cross = wide(moments["cross"])
    counts = counts.to(cross.device).double()
    gram, total = full_gram(moments["triangle"], len(cross)), counts.sum()
    slack = TOLERANCE * total + 0.5
    if ((cross[-1] - counts).abs() > slack).any():
        return "its sums are of other counts than it names"
    if (gram[:, -1] - cross.sum(dim=1)).abs().max() > slack:
        return "its sums of rows and of labelled rows differ"
    if float(gram.diagonal().sum()) > float(total) * (norm + 1) * (1 + TOLERANCE) + 0.5:
        return "its sums of squares are larger than its samples allow"
    if (cross[:-1].norm(dim=0) > counts * norm**0.5 * (1 + TOLERANCE) + 0.5).any():
        return "a class's sum of rows is longer than its samples allow"
    if (gram.diagonal() < -slack).any() or not positive(gram, slack):
        return "its sums of squares have a negative direction"
    return None


def positive(gram: Tensor, slack: Tensor) -> bool:
    """Whether no direction is below -slack."""
    identity = torch.eye(len(gram), dtype=gram.dtype, device=gram.device)
    return int(torch.linalg.cholesky_ex(gram + slack * identity).info) == 0
