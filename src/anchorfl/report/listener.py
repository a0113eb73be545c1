"""Writes a run's page when it ends."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext, suppress
from pathlib import Path

from anchorfl.events import LISTENERS, Event, Listener, RunEnded
from anchorfl.report.page import write_page
from anchorfl.runs import read_run


@LISTENERS.register("page")
def page_writer(folder: Path, settings: Mapping[str, object]) -> Listener:
    """Where the run failed, no trouble with its page hides the failure."""

    def listen(event: Event) -> None:
        if isinstance(event, RunEnded):
            with suppress(Exception) if event.status == "failed" else nullcontext():
                write_page(read_run(event.folder, trust=True))

    return listen
