"""Elementary functions of floats and tensors alike: one formula serves training and forecast.

Nothing here imports torch, so that a forecast starts at once.
"""

from __future__ import annotations

import math
from typing import TypeVar

from anchorfl.tensors import Tensor

N = TypeVar("N", float, Tensor)
LOG_LIMIT = 40.0


def exp(x: N) -> N:
    return math.exp(x) if isinstance(x, float) else x.exp()


def log1p(x: N) -> N:
    return math.log1p(x) if isinstance(x, float) else x.log1p()


def sqrt(x: N) -> N:
    return math.sqrt(x) if isinstance(x, float) else x.sqrt()


def clamp(x: N, lowest: float, highest: float = math.inf) -> N:
    return min(max(x, lowest), highest) if isinstance(x, float) else x.clamp(lowest, highest)


def ratio(upper: N, lower: N) -> N:
    """upper/lower, at most upper e^40: a loss of exactly 0 gives a huge number, not infinity."""
    return upper / clamp(lower, math.exp(-LOG_LIMIT))


def bounded(logarithm: Tensor) -> Tensor:
    """Held within +-40, where e^x and its square are still numbers; the gradient passes through."""
    return logarithm + (clamp(logarithm, -LOG_LIMIT, LOG_LIMIT) - logarithm).detach()
