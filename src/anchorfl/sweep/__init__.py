"""Many experiments from one file: a grid, a list, or a search."""

from anchorfl.sweep.plan import Plan, Trial, read_plan
from anchorfl.sweep.search import run_search
from anchorfl.sweep.workers import Ended, by_changed_code, run_sweep

__all__ = ["Ended", "Plan", "Trial", "by_changed_code", "read_plan", "run_search", "run_sweep"]
