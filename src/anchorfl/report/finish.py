"""Run an experiment before a user's eyes and show what came of it."""

from __future__ import annotations

from rich.console import Console

from anchorfl.config import Config
from anchorfl.engine import run_in_folder
from anchorfl.report.console import say
from anchorfl.report.diagnosis import show_diagnosis
from anchorfl.report.png_files import write_figures
from anchorfl.report.progress import show_progress
from anchorfl.report.tables import result_table


def run_and_report(config: Config, console: Console, restart: bool = False) -> None:
    run = run_in_folder(config, (show_progress(console),), restart)
    console.print(result_table(run.summary))
    show_diagnosis(console, run, run.summary.warnings)
    for path in write_figures(run, run.files.figures):
        kind = "figure" if path.suffix == ".png" else "table"
        say(console, f"{kind}: {path}")
    say(console, f"report: {run.files.page}")
    say(console, f"run folder: {run.folder}")
