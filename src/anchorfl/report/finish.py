"""Run an experiment before a user's eyes and show what came of it."""

from __future__ import annotations

from rich.console import Console

from anchorfl.config import Config
from anchorfl.experiment import Result, run_config
from anchorfl.report.console import say
from anchorfl.report.plots import draw_run_figures
from anchorfl.report.progress import show_progress
from anchorfl.report.tables import result_table


def run_and_report(config: Config, console: Console) -> Result:
    result = run_config(config, (show_progress(console),))
    console.print(result_table(result))
    for picture in draw_run_figures(result):
        say(console, f"picture: {picture}")
    for warning in dict.fromkeys(result.summary["warnings"]):
        say(console, f"warning: {warning}", style="yellow")
    say(console, f"run folder: {result.folder}")
    return result
