"""Sums in a half or a quarter of their bytes: class means, and a factor of the scatter around them.

X'X itself bears no rounding: what tells classes apart is small beside the square of the mean, and
rounding makes directions negative. A factor R of the scatter, R'R, has none whatever is rounded. Its
entries are off by 0.02 % in 16 bits and by 3 % in 8, so that in units of the numbers' own variances
every direction gains a variance of some 1e-8, or 1e-3. Numbers that go together have directions of less
than that, so 8 bits are for principal components, which hardly do, and other numbers keep 16.
"""

from __future__ import annotations

from math import isqrt

import torch
from torch import Tensor

from anchorfl.describe.moments import full_gram, supported, triangle, wide
from anchorfl.errors import UserError
from anchorfl.tensors import Tensors

MEAN_UNIT = 2.0**-12
"""Of means in half precision: small ones keep their digits, and a row of norm 10 fits."""
EIGHT_BITS, UNIT = torch.float8_e4m3fn, 2.0**-8
"""4 of exponent, 3 of mantissa and a sign: in this unit from 2^-17 to 1 and above."""
FACTOR_PARTS = {"counts", "means", "norms", "factor16", "factor8"}
NOT_SINGLE = {"means": torch.float16, "factor16": torch.float16, "factor8": torch.uint8}
"""Types other than single precision."""
LEAST_RAISED, MOST_RAISED = -8, 0
"""Powers of ten. Sums in single precision know no variance below 1e-7 of a mean square."""


def in_eight_bits(values: Tensor) -> Tensor:
    """Numbers from -1 to 1; they travel as bytes, which every program can hold."""
    return (values / UNIT).to(EIGHT_BITS).view(torch.uint8)


def in_single(values: Tensor) -> Tensor:
    """Numbers in 16 bits, or in 8."""
    if values.dtype == torch.uint8:
        return supported(values).view(EIGHT_BITS).float() * UNIT
    return values.float()


def factored(moments: Tensors, precision: str, principal: int) -> Tensors:
    """X'X and X'Y of rows [x 1] as they travel; fp32: as they are.

    Else class counts n_c, class means m_c, and R of S = X'X - sum_c n_c m_c m_c' = R'R, the scatter
    within classes, R upper triangular (Cholesky): its columns' norms, and the columns of norm 1, in
    16 bits; fp8: those of the last `principal` numbers, which are principal components, in 8.
    """
    if precision == "fp32":
        return moments
    cross = wide(moments["cross"])
    sums, counts = cross[:-1], cross[-1]
    means = sums / counts.clamp(min=1)
    scatter = full_gram(moments["triangle"], len(cross))[:-1, :-1]
    squares = scatter.diagonal().clamp(min=1e-30)
    scatter -= means @ sums.T
    factor = positive_factor(scatter, squares)
    norms = factor.norm(dim=0)
    entries, width = factor / norms, len(norms)
    in_sixteen = width - principal if precision == "fp8" else width
    first, last = by_precision(width, in_sixteen, factor.device)
    return {
        "counts": counts.float(),
        "means": (means / MEAN_UNIT).half(),
        "norms": norms.float(),
        "factor16": entries[first].half(),
        "factor8": in_eight_bits(entries[last]),
    }


def by_precision(width: int, in_sixteen: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Masks of R's entries: those in so many first columns, and those in the others."""
    entries = triangle(width, device)
    early = torch.arange(width, device=device) < in_sixteen
    return entries & early, entries & ~early


def positive_factor(scatter: Tensor, squares: Tensor) -> Tensor:
    """R; the scatter's diagonal is raised by as small a share of the squares as makes it positive.

    Where X'X came rounded, as much of a number's variance is noise.
    """
    factor = scatter
    for exponent in range(LEAST_RAISED, MOST_RAISED + 1):
        scatter.diagonal().add_(10.0**exponent * squares)
        factor, failed = torch.linalg.cholesky_ex(scatter, upper=True)
        if not failed:
            break
    return factor


def is_factored(moments: Tensors) -> bool:
    return moments.keys() == FACTOR_PARTS


def in_full(moments: Tensors) -> Tensors:
    """X'X and X'Y, however they came; in double precision where they came as a factor."""
    if not is_factored(moments):
        return moments
    columns, classes = moments["norms"].numel() + 1, moments["counts"].numel()
    shapes = {name: tuple(value.shape) for name, value in moments.items()}
    if shapes != factored_shapes(columns, classes, moments["factor16"].numel()):
        raise UserError(f"sums whose parts do not fit each other: {str(shapes)[:200]}")
    counts, means = wide(moments["counts"]), wide(moments["means"]) * MEAN_UNIT
    factor = torch.zeros(columns - 1, columns - 1, device=means.device)
    first, last = by_precision(len(factor), side(len(moments["factor16"])), factor.device)
    factor[first] = in_single(moments["factor16"]).to(factor)
    factor[last] = in_single(moments["factor8"]).to(factor)
    factor *= moments["norms"].to(factor) / factor.norm(dim=0).clamp(min=1e-30)
    cross = torch.cat([means * counts, counts[None]])
    gram = torch.cat([means, torch.ones_like(counts)[None]]) @ cross.T
    gram[:-1, :-1] += (factor.T @ factor).to(gram)
    return {"triangle": gram[triangle(columns, gram.device)], "cross": cross}


def side(entries: int) -> int:
    """Of the triangle of so many entries."""
    return (isqrt(8 * entries + 1) - 1) // 2


def factored_shapes(columns: int, classes: int, sixteen: int) -> dict[str, tuple[int, ...]]:
    """Of what `factored` makes of rows of so many columns, the constant among them.

    `sixteen` entries of R are in 16 bits: rounded down to whole columns, at most all of them, so that
    any other number does not fit.
    """
    width = columns - 1
    first = min(side(sixteen), width)
    fine = first * (first + 1) // 2
    return {
        "counts": (classes,),
        "means": (width, classes),
        "norms": (width,),
        "factor16": (fine,),
        "factor8": (width * (width + 1) // 2 - fine,),
    }
