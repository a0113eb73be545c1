"""One way to write a run's numbers: in verdicts and progress, on the console, in tables and figures."""

from __future__ import annotations

from collections.abc import Iterable

NONE = "-"
"""Where there is no number."""


def percent(share: float | None) -> str:
    """0.8642 -> 86.4; a heading says %, or a space and % follow."""
    return NONE if share is None else f"{100 * share:.1f}"


def quantity(value: float | None) -> str:
    """Three digits, or all before the point: 0.00123, 12.3, 49,125,952; 1.23e+12 from a trillion."""
    if value is None:
        return NONE
    if 100 <= abs(value) < 1e12:
        return f"{value:,.0f}"
    return f"{value:.3g}".replace("e-0", "e-")


def counted(number: int, word: str) -> str:
    """1 round, 1,442 samples."""
    return f"{number:,} {word}{'' if number == 1 else 's'}"


def top(values: Iterable[float | None]) -> float | None:
    """The largest of those that are known."""
    return max((value for value in values if value is not None), default=None)
