"""Lambda foreseen, watched and explained: from formulas and records, without training."""

from anchorfl.diagnose.forecast import forecast, forecast_run, geometric, leaves, smallest_gamma
from anchorfl.diagnose.guard import REACTIONS, Alarm, Guard
from anchorfl.diagnose.verdict import Verdict, repeats
from anchorfl.diagnose.verdicts import diagnose

__all__ = [
    "REACTIONS",
    "Alarm",
    "Guard",
    "Verdict",
    "diagnose",
    "forecast",
    "forecast_run",
    "geometric",
    "leaves",
    "repeats",
    "smallest_gamma",
]
