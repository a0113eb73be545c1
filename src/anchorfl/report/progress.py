"""Listeners that show a run while it goes: a live display in a terminal, plain lines in a log."""

from __future__ import annotations

import time
from datetime import timedelta

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from anchorfl.events import (
    EpochTrained,
    Event,
    Listener,
    RoundEvaluated,
    RunEnded,
    RunStarted,
    Warned,
)
from anchorfl.report.console import say

SILENCE = 10.0


def show_progress(console: Console) -> Listener:
    """The display that fits the console."""
    return LiveProgress(console) if console.is_terminal else PlainProgress(console)


def percentages(accuracy: dict[str, float]) -> str:
    return "  ".join(f"{name} {value:.1%}" for name, value in accuracy.items())


def opening(event: RunStarted) -> str:
    busy = sum(size > 0 for size in event.samples)
    epochs = f"{event.local_epochs} epoch{'s' if event.local_epochs > 1 else ''}"
    return (
        f"{event.method} on {event.dataset}: {busy} clients, {sum(event.samples):,} samples,"
        f" {event.rounds} rounds of {epochs} on {event.device}"
        f" -> {event.folder}"
    )


class Pace:
    """Samples gone through, and what is left, by the clock."""

    def __init__(self, event: RunStarted) -> None:
        self.total = sum(event.samples) * event.rounds * event.local_epochs
        self.rounds, self.done, self.started = event.rounds, 0, time.perf_counter()

    def left(self) -> str:
        elapsed = time.perf_counter() - self.started
        seconds = elapsed * (self.total - self.done) / max(self.done, 1)
        return str(timedelta(seconds=round(seconds)))


class PlainProgress:
    """A line a round; within a long round, a line every ten seconds or so."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.spoke = time.perf_counter()

    def say(self, line: str) -> None:
        self.spoke = time.perf_counter()
        say(self.console, line)

    def __call__(self, event: Event) -> None:
        if isinstance(event, RunStarted):
            self.pace = Pace(event)
            self.say(opening(event))
        elif isinstance(event, EpochTrained):
            self.pace.done += event.samples
            if time.perf_counter() - self.spoke > SILENCE:
                self.say(f"round {event.round} client {event.client}  {self.pace.left()} left")
        elif isinstance(event, RoundEvaluated):
            self.say(
                f"round {event.round} ({event.round + 1}/{self.pace.rounds})"
                f"  {percentages(event.accuracy)}"
                f"  {event.samples_per_second:,.0f} samples/s  {self.pace.left()} left"
            )
        elif isinstance(event, Warned):
            self.say(f"warning: {event.message}")


class LiveProgress:
    """One bar over all samples of the run: round, client, samples/s, time left, last accuracy."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f}%"),
            TextColumn("{task.fields[pace]}"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[accuracy]}"),
            console=console,
            transient=True,
        )
        self.task: TaskID | None = None

    def __call__(self, event: Event) -> None:
        if isinstance(event, RunStarted):
            say(self.console, opening(event))
            self.rounds = event.rounds
            total = sum(event.samples) * event.rounds * event.local_epochs
            self.task = self.bar.add_task("starting", total=total, pace="", accuracy="")
            self.bar.start()
        elif isinstance(event, Warned):
            say(self.console, f"warning: {event.message}", style="yellow")
        elif isinstance(event, RunEnded):
            self.bar.stop()
        elif self.task is not None and isinstance(event, EpochTrained):
            self.bar.update(
                self.task,
                advance=event.samples,
                description=f"round {event.round + 1}/{self.rounds} client {event.client}",
            )
        elif self.task is not None and isinstance(event, RoundEvaluated):
            self.bar.update(
                self.task,
                pace=f"{event.samples_per_second:,.0f} samples/s",
                accuracy=percentages(event.accuracy),
            )
