"""Writes a run's page when it ends."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext, suppress
from pathlib import Path

from anchorfl.engine import Event, Listener, RunEnded
from anchorfl.registry import LISTENERS
from anchorfl.report.page import write_page


@LISTENERS.register("page")
def page_writer(folder: Path, settings: Mapping[str, object]) -> Listener:
    """Where the run failed, no trouble with its page hides the failure."""

    def listen(event: Event) -> None:
        if isinstance(event, RunEnded):
            with suppress(Exception) if event.run.summary.status == "failed" else nullcontext():
                write_page(event.run)

    return listen
