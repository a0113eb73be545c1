"""Runs beside each other: tables with a paired test, curves with their spread, a page, figures."""

from anchorfl.report.compare.differing import SAME
from anchorfl.report.compare.folders import finished_runs
from anchorfl.report.compare.show import show_comparison

__all__ = ["SAME", "finished_runs", "show_comparison"]
