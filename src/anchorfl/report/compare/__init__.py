"""Runs beside each other: tables with a paired test, curves with their spread, a page, figures."""

from anchorfl.report.compare.groups import SAME
from anchorfl.report.compare.show import finished_runs, show_comparison

__all__ = ["SAME", "finished_runs", "show_comparison"]
