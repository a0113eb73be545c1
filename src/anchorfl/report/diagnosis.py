"""What `anchorfl diagnose` and the end of a run say."""

from __future__ import annotations

from rich.console import Console

from anchorfl.diagnose import Verdict, diagnose
from anchorfl.report.console import say
from anchorfl.runs import Run


def show_diagnosis(console: Console, run: Run) -> None:
    for verdict in diagnose(run):
        say_verdict(console, verdict)


def say_verdict(console: Console, verdict: Verdict) -> None:
    say(console, verdict.text, style="yellow" if verdict.problem else None)
