"""One way to write a number, on the console, in tables and on pages."""

from __future__ import annotations

NONE = "-"
"""Where there is no number."""


def percent(share: float | None) -> str:
    """0.8642 -> 86.4; the heading says %."""
    return NONE if share is None else f"{100 * share:.1f}"


def quantity(value: float | None) -> str:
    """Three digits, or all before the point: 0.00123, 12.3, 1,641; 1.23e+09 from a billion."""
    if value is None:
        return NONE
    if abs(value) >= 1e9:
        return f"{value:.2e}"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def megabytes(size: float) -> str:
    """2,345,678 -> 2.3 MB; under a tenth of one in kB."""
    return f"{size / 1e6:,.1f} MB" if size >= 1e5 else f"{size / 1e3:,.1f} kB"


def counted(number: int, word: str) -> str:
    """1 round, 1,442 samples."""
    return f"{number:,} {word}{'' if number == 1 else 's'}"
