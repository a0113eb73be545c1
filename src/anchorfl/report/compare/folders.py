"""The folders that a comparison is given: those that hold no finished run are left out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from anchorfl.errors import UserError
from anchorfl.report.console import say
from anchorfl.runs import Run, read_run


def finished_runs(console: Console, folders: Sequence[Path]) -> list[Run]:
    """Of several folders what is no finished run is named and left out; one alone is refused."""
    if len(folders) == 1:
        return [read_run(folders[0])]
    found = []
    for folder in folders:
        try:
            run = read_run(folder)
        except UserError as error:
            if not folder.exists():
                raise
            say(console, f"left out: {f'{folder}: is no run' if folder.is_file() else error}")
            continue
        if run.summary.status == "finished":
            found.append(run)
        else:
            say(console, f"left out: {folder}: is not finished")
    if not found:
        raise UserError("compare: name at least one finished run's folder")
    return found
