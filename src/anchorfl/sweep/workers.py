"""The runs of a sweep, several at once, picked up where they stopped."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import active_children, get_context, parent_process
from pathlib import Path
from threading import Thread

import torch

from anchorfl.compute import cores
from anchorfl.errors import UserError
from anchorfl.files import locked
from anchorfl.runs import Run, put_aside, put_away, read_run
from anchorfl.settings import flatten
from anchorfl.simulate import run_in_folder
from anchorfl.sweep.plan import Plan, Trial


@dataclass(frozen=True)
class Ended:
    """How a run of a sweep went; `error` in one line where it failed, `stopped` by the guard or not."""

    trial: Trial
    seconds: float
    accuracy: Mapping[str, float]
    validation: Mapping[str, float] | None = None
    error: str | None = None
    stopped: bool = False
    skipped: bool = False


def run_sweep(plan: Plan, on_end: Callable[[Ended], None]) -> list[Ended]:
    """All runs of a grid or list; what finished in an earlier start is not run again."""
    trials, waiting = plan.trials(), []
    ended: dict[str, Ended] = {}
    with claimed(plan.folder):
        for trial in trials:
            finished = earlier(plan.folder / trial.name, trial)
            if finished is None:
                waiting.append(trial)
            else:
                ended[trial.name] = finished
                on_end(finished)
        feed = iter(waiting)
        with closing(results(plan, lambda: next(feed, None))) as found:
            for done in found:
                ended[done.trial.name] = done
                on_end(done)
    return [ended[trial.name] for trial in trials]


@contextmanager
def claimed(folder: Path) -> Iterator[None]:
    """The sweep's folder, made where it is missing, for this process alone."""
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder):
        yield


def by_changed_code(folder: Path) -> list[Run]:
    """The runs of a sweep's folder that are to be run again, for their code was another."""
    found = []
    for file in sorted(folder.glob("*/config.yaml")):
        with suppress(UserError):
            run = read_run(file.parent)
            found += [run] if run.changed_code else []
    return found


def earlier(folder: Path, trial: Trial) -> Ended | None:
    """A run of an earlier start that ended; one that did not goes on, what is no run is put aside.

    By code that has changed since it is neither: it is put away.
    """
    if not folder.is_dir() or not any(folder.iterdir()):
        return None
    try:
        run = read_run(folder)
    except UserError:
        put_aside(folder)
        return None
    if run.changed_code:
        put_away(folder)
        return None
    other = run.unlike(flatten(trial.config(folder.parent).to_dict()))
    if other is not None:
        raise UserError(f"{folder}: was run with {other}; name another out")
    return None if run.unfinished else summarised(trial, run, skipped=True)


def summarised(trial: Trial, run: Run, skipped: bool) -> Ended:
    validation = run.evaluations[-1]["validation_accuracy"] if run.evaluations else None
    stopped = run.summary.status != "finished"
    figures = run.summary.seconds or 0.0, run.summary.final_accuracy or {}, validation
    return Ended(trial, *figures, stopped=stopped, skipped=skipped)


def results(plan: Plan, ask: Callable[[], Trial | None]) -> Generator[Ended]:
    """Run what `ask` gives until it gives None, `at_once` at a time; yields as they end.

    What is running ends where the user or an error ends the sweep.
    """
    pool = processes(plan.at_once)
    running: dict[Future[Ended], Trial] = {}
    more = True
    try:
        while more or running:
            while more and len(running) < plan.at_once:
                trial = ask()
                more = trial is not None
                if trial is not None:
                    running[pool.submit(run_trial, trial, plan.folder)] = trial
            died = False
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                trial = running.pop(future)
                try:
                    yield future.result()
                except BrokenProcessPool:
                    died = True
                    yield Ended(trial, 0.0, {}, error="its process died (out of memory?)")
            if died and not running:
                pool = processes(plan.at_once)
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        for process in active_children():
            process.terminate()
        raise
    finally:
        pool.shutdown()


def processes(count: int) -> ProcessPoolExecutor:
    """Each runs one experiment after another, on a share of the cores."""
    threads = max(1, cores() // count)
    return ProcessPoolExecutor(count, get_context("spawn"), initializer=begin, initargs=(threads,))


def begin(threads: int) -> None:
    """In a worker: its share of the cores, and an end of its own when the sweep is killed."""
    torch.set_num_threads(threads)
    Thread(target=end_with_parent, daemon=True).start()


def end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)


def run_trial(trial: Trial, folder: Path) -> Ended:
    """In a worker: a failure ends this run, not the sweep."""
    started = time.perf_counter()
    try:
        run = run_in_folder(trial.config(folder))
    except Exception as error:  # whatever goes wrong in one run is shown beside the others
        why = " ".join(f"{type(error).__name__}: {error}".split())
        return Ended(trial, time.perf_counter() - started, {}, error=why)
    return summarised(trial, run, skipped=False)
