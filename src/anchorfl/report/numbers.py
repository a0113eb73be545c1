"""One way to write a number, on the console, in tables and on pages."""

from __future__ import annotations

from anchorfl.runs import NONE, counted, percent, quantity

__all__ = ["NONE", "counted", "megabytes", "percent", "quantity"]


def megabytes(size: float) -> str:
    """2,345,678 -> 2.3 MB; under a tenth of one in kB."""
    return f"{size / 1e6:,.1f} MB" if size >= 1e5 else f"{size / 1e3:,.1f} kB"
