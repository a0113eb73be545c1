"""Listeners that show a run while it goes: a live display in a terminal, plain lines in a log."""

from __future__ import annotations

import time
from datetime import timedelta

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from anchorfl.events import (
    BatchTrained,
    Evaluating,
    Event,
    Listener,
    Preparing,
    RoundEnded,
    RunEnded,
    RunStarted,
    Warned,
)
from anchorfl.report.console import say
from anchorfl.report.numbers import counted, percent, quantity

SILENCE = 10.0


def show_progress(console: Console) -> Listener:
    """The display that fits the console."""
    return (
        LiveProgress(console)
        if console.is_terminal and not console.is_dumb_terminal
        else PlainProgress(console)
    )


def display_where_seen() -> Listener | None:
    """A live display in a terminal or a notebook; in a log, nothing."""
    console = Console(highlight=False)
    looked_at = console.is_jupyter or (console.is_terminal and not console.is_dumb_terminal)
    return LiveProgress(console) if looked_at else None


def percentages(accuracy: dict[str, float]) -> str:
    return "  ".join(f"{name} {percent(value)} %" for name, value in accuracy.items())


def opening(event: RunStarted) -> str:
    busy = sum(size > 0 for size in event.samples)
    some = f" ({busy:,} with samples)" if busy < len(event.samples) else ""
    epochs = counted(event.local_epochs, "epoch")
    threads = f", {counted(event.threads, 'thread')}" if event.device == "cpu" else ""
    before = f", {event.begun} of them done before" if event.begun else ""
    trained = f"{event.encoder} in batches of {event.batch:,}, " if event.encoder else ""
    return (
        f"{event.method} on {event.dataset}: {trained}{counted(len(event.samples), 'client')}{some},"
        f" {counted(sum(event.samples), 'sample')}, {counted(event.rounds, 'round')} of {epochs}"
        f"{before} on {event.device}{threads} -> {event.folder}"
    )


def samples_to_come(event: RunStarted) -> int:
    return sum(event.samples) * (event.rounds - event.begun) * event.local_epochs


class PlainProgress:
    """A line per round; within a long round, a line every ten seconds or so."""

    def __init__(self, console: Console) -> None:
        self.console = console

    def __call__(self, event: Event) -> None:
        if isinstance(event, RunStarted):
            self.rounds, self.total, self.done = event.rounds, samples_to_come(event), 0
            self.started = time.perf_counter()
            self.say(opening(event))
        elif isinstance(event, Preparing):
            self.say_if_silent(f"{event.what} {percent(event.done / event.total)} %")
            self.started = time.perf_counter()
        elif isinstance(event, BatchTrained):
            self.done += event.samples
            self.say_if_silent(f"{self.place(event.round)} client {event.client}{self.left()}")
        elif isinstance(event, Evaluating):
            self.say_if_silent(f"{self.place(event.round)} evaluating")
        elif isinstance(event, RoundEnded):
            how = percentages(event.accuracy) if event.accuracy else "trained"
            self.say(f"{self.place(event.round)}  {how}{self.pace(event.samples_per_second)}")
        elif isinstance(event, Warned):
            self.say(f"warning: {event.message}")

    def say(self, line: str) -> None:
        self.spoke = time.perf_counter()
        say(self.console, line)

    def say_if_silent(self, line: str) -> None:
        if time.perf_counter() - self.spoke > SILENCE:
            self.say(line)

    def place(self, number: int) -> str:
        return f"round {number} ({number + 1}/{self.rounds})"

    def pace(self, samples_per_second: float) -> str:
        """Nothing where nothing is trained."""
        if not samples_per_second:
            return ""
        return f"  {quantity(samples_per_second)} samples/s{self.left()}"

    def left(self) -> str:
        """Nothing before the first sample, from which no time can be told."""
        if not self.done:
            return ""
        elapsed = time.perf_counter() - self.started
        return f"  {timedelta(seconds=round(elapsed * (self.total - self.done) / self.done))} left"


class Pace(ProgressColumn):
    """Samples per second, over the last while."""

    def render(self, task: Task) -> Text:
        return Text(f"{quantity(task.speed)} samples/s" if task.speed else "")


class LiveProgress:
    """One bar over all samples of the run: round, client, samples/s, time left, last accuracy."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            Pace(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[accuracy]}"),
            console=console,
            transient=True,
        )

    def __call__(self, event: Event) -> None:
        if isinstance(event, RunStarted):
            say(self.console, opening(event))
            self.rounds = event.rounds
            total = samples_to_come(event)
            self.task: TaskID = self.bar.add_task("starting", total=total, accuracy="")
            self.bar.start()
        elif isinstance(event, Preparing):
            self.bar.update(
                self.task, description=f"{event.what} {percent(event.done / event.total)} %"
            )
        elif isinstance(event, BatchTrained):
            place = f"round {event.round + 1}/{self.rounds} client {event.client}"
            self.bar.update(self.task, advance=event.samples, description=place)
        elif isinstance(event, Evaluating):
            place = f"round {event.round + 1}/{self.rounds} evaluating"
            self.bar.update(self.task, description=place)
        elif isinstance(event, RoundEnded) and event.accuracy:
            name, value = next(iter(event.accuracy.items()))
            self.bar.update(self.task, accuracy=percentages({name: value}))
        elif isinstance(event, Warned):
            say(self.console, f"warning: {event.message}", style="yellow")
        elif isinstance(event, RunEnded):
            self.bar.stop()
