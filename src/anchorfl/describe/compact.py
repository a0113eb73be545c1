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

MEAN_UNIT = 2.0**-12
"""Of means in half precision: small ones keep their digits, and a row of norm 10 fits."""
EIGHT_BITS, UNIT = torch.float8_e4m3fn, 2.0**-8
"""4 of exponent, 3 of mantissa and a sign: in this unit from 2^-17 to 1 and above."""
NOT_SINGLE = {"means": (torch.float16,), "factor": (torch.float16, torch.uint8)}
"""Types other than single precision."""
FLATTEST = 1e-7
"""A variance is no smaller a share of the mean square: single precision knows nothing of less."""
LEAST_RAISED, MOST_RAISED = -9, 6


def in_eight_bits(values: Tensor) -> Tensor:
    """Numbers from -1 to 1; they travel as bytes, which every program can hold."""
    return (values / UNIT).to(EIGHT_BITS).view(torch.uint8)


def lengthened(values: Tensor) -> Tensor:
    """In single precision, from 16 bits or from 8."""
    if values.dtype == torch.uint8:
        return values.view(EIGHT_BITS).float() * UNIT
    return values.float()


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
    entries = factor[triangle(len(factor), factor.device)]
    return {
        "counts": counts.float(),
        "means": (means / MEAN_UNIT).half(),
        "deviations": deviations.float(),
        "factor": entries.half() if precision == "fp16" else in_eight_bits(entries),
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
    entries, width = lengthened(moments["factor"]), len(means)
    factor = entries.new_zeros(width, width)
    factor[triangle(width, factor.device)] = entries
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
