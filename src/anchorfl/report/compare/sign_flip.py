"""An exact test of paired differences that assumes no distribution."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

STEP = 1e-5
"""Differences of accuracies are counted in thousandths of a point, so that equal sums are equal."""


def sign_flip_p(differences: Sequence[float]) -> float | None:
    """The share of all 2^n ways to sign the differences whose sum is as far from 0 as theirs.

    Two-sided. Of n differences it is at least 2 / 2^n; None where a single one says nothing.
    """
    if len(differences) < 2:
        return None
    steps = [round(difference / STEP) for difference in differences]
    ways = Counter({0: 1})
    for step in steps:
        extended: Counter[int] = Counter()
        for total, count in ways.items():
            extended[total + step] += count
            extended[total - step] += count
        ways = extended
    as_far = sum(count for total, count in ways.items() if abs(total) >= abs(sum(steps)))
    return as_far / (1 << len(steps))
