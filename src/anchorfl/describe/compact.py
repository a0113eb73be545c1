"""Sums in a half or a quarter of their bytes: class means, and a factor of the spread around them.

X'X itself bears no rounding: what tells classes apart is small beside the square of the mean, and
rounding makes directions negative. A factor R of the spread, R'R, has none whatever is rounded, and
errs in a direction in proportion to the spread there.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from anchorfl.describe.moments import full_gram, triangle, wide
from anchorfl.tensors import Tensors

MEAN_UNIT = 2.0**-14
"""Of means in half precision: small ones keep their digits, and a row's norm fits."""
FACTOR_UNIT = 2.0**-8
"""Of the factor, whose columns have norm 1: so the smallest that 8 bits hold is 2^-17."""
FACTORS = {"fp16": torch.float16, "fp8": torch.float8_e4m3fn}
"""By `describe.sums`; eight bits are 4 of exponent, 3 of mantissa and a sign."""
NOT_SINGLE = {"means": (torch.float16,), "factor": (torch.float16, torch.uint8)}
"""Types other than single precision; eight bits travel as bytes, which every program can hold."""
FLATTEST = 1e-7
"""A variance is no smaller a share of the mean square: single precision knows nothing of less."""
LEAST_RAISED, MOST_RAISED = -9, 6


def packed(moments: Tensors, precision: str) -> Tensors:
    """X'X and X'Y of rows [x 1] as they travel; fp32: as they are.

    Else class counts, class means, and of S = X'X - sum_c n_c m_c m_c', the scatter within classes,
    the roots s of its diagonal and R in R'R = S_ij / (s_i s_j), upper triangular (Cholesky).
    """
    if precision == "fp32":
        return moments
    cross = wide(moments["cross"])
    sums, counts = cross[:-1], cross[-1]
    means = sums / counts.clamp(min=1)
    gram = full_gram(moments["triangle"], len(cross))[:-1, :-1]
    scatter = gram - means @ sums.T
    least = (FLATTEST * gram.diagonal()).clamp(min=1e-30)
    deviations = scatter.diagonal().maximum(least).sqrt()
    factor = positive_factor(scatter / deviations / deviations[:, None])
    units = (factor[triangle(len(factor), factor.device)] / FACTOR_UNIT).to(FACTORS[precision])
    return {
        "counts": counts.float(),
        "means": (means / MEAN_UNIT).half(),
        "deviations": deviations.float(),
        "factor": units.view(torch.uint8) if units.itemsize == 1 else units,
    }


def positive_factor(correlations: Tensor) -> Tensor:
    """R, of a diagonal raised by the least power of ten that makes it positive: sums came rounded."""
    raised, factor = correlations.clone(), correlations
    for exponent in range(LEAST_RAISED, MOST_RAISED + 1):
        raised.diagonal().copy_(correlations.diagonal() + 10.0**exponent)
        factor, failed = torch.linalg.cholesky_ex(raised, upper=True)
        if not failed:
            break
    return factor


def in_full(moments: Tensors) -> Tensors:
    """X'X and X'Y, however they came: in double precision, the columns of R of norm 1 again."""
    if "factor" not in moments:
        return moments
    counts, means = wide(moments["counts"]), wide(moments["means"]) * MEAN_UNIT
    units, width = moments["factor"], len(means)
    units = units.view(FACTORS["fp8"]) if units.dtype == torch.uint8 else units
    factor = units.new_zeros(width, width, dtype=torch.float32)
    factor[triangle(width, factor.device)] = units.float()
    factor = F.normalize(factor, dim=0) * moments["deviations"]
    cross = torch.cat([means * counts, counts[None]])
    gram = torch.cat([means, torch.ones_like(counts)[None]]) @ cross.T
    gram[:-1, :-1] += (factor.T @ factor).to(gram)
    return {"triangle": gram[triangle(width + 1, gram.device)], "cross": cross}


def packed_shapes(columns: int, classes: int) -> dict[str, tuple[int, ...]]:
    """Of what `packed` makes of rows of so many columns, the constant among them."""
    width = columns - 1
    return {
        "counts": (classes,),
        "means": (width, classes),
        "deviations": (width,),
        "factor": (width * (width + 1) // 2,),
    }
