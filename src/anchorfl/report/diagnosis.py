"""What `anchorfl diagnose` and the end of a run say."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from anchorfl.diagnose import diagnose, repeats
from anchorfl.report.console import say
from anchorfl.runs import Run


def show_diagnosis(console: Console, run: Run, warned: Sequence[str] = ()) -> None:
    """The verdicts, without those that say again what the user was `warned` of before."""
    for verdict in diagnose(run):
        if not any(repeats(verdict, warning) for warning in warned):
            say(console, verdict.text, style="yellow" if verdict.problem else None)
