"""Run an experiment before a user's eyes and show what came of it."""

from __future__ import annotations

from rich.console import Console

from anchorfl.config import Config
from anchorfl.experiment import Result, run_config
from anchorfl.report.console import say
from anchorfl.report.diagnosis import show_diagnosis
from anchorfl.report.png_files import write_figures
from anchorfl.report.progress import show_progress
from anchorfl.report.tables import result_table


def run_and_report(config: Config, console: Console) -> Result:
    result = run_config(config, (show_progress(console),))
    console.print(result_table(result.summary))
    show_diagnosis(console, result.run)
    for path in write_figures(result.run, result.run.files.figures):
        kind = "figure" if path.suffix == ".png" else "table"
        say(console, f"{kind}: {path}")
    say(console, f"report: {result.run.files.page}")
    say(console, f"run folder: {result.folder}")
    return result
