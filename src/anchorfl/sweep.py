"""Many experiments from one file, several at once, picked up where they stopped.

settings:                        # for every run, as `anchorfl run` takes them
  data.name: digits
  train.rounds: 10
list:                            # each of these ...
  - {method: v4}
  - {method: v12-gamma, align.gamma: 0.02}
grid:                            # ... with each combination of these
  partition.alpha: [0.05, 0.5]
  seed: [1, 2, 3]
at_once: 2
out: runs/my-sweep
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing import active_children, get_context
from pathlib import Path
from typing import Any

from anchorfl.config import Config, flatten, read_yaml, resolve
from anchorfl.errors import UserError
from anchorfl.methods import METHODS
from anchorfl.registry import suggestion
from anchorfl.runfolder import INCIDENTAL, new_folder

KEYS = ("settings", "list", "grid", "search", "at_once", "out", "baseline")
RUNS_ON_A_GPU = 2
TRIALS = 20


@dataclass(frozen=True)
class Trial:
    """One run of a sweep: its folder's name and its settings, `method` among them."""

    name: str
    settings: Mapping[str, object]

    def config(self, folder: Path) -> Config:
        settings = {**self.settings, "out": str(folder / self.name)}
        return resolve(str(settings.pop("method", "v4")), settings)


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


@dataclass(frozen=True)
class Plan:
    """A sweep's file, checked."""

    folder: Path
    settings: Mapping[str, object]
    alternatives: Sequence[Mapping[str, object]]
    grid: Mapping[str, Sequence[object]]
    search: Mapping[str, Any] | None
    at_once: int
    baseline: str | None

    def trials(self) -> list[Trial]:
        """Every alternative with every combination of the grid, each checked as a run is."""
        varied = list(dict.fromkeys([*itertools.chain(*self.alternatives), *self.grid]))
        found: dict[str, Trial] = {}
        for alternative in self.alternatives:
            for values in itertools.product(*self.grid.values()):
                own = {**alternative, **dict(zip(self.grid, values, strict=True))}
                trial = Trial(short_name(own, varied), {**self.settings, **own})
                if trial.name in found:
                    raise UserError(f"two runs of the sweep are the same: {trial.name}")
                trial.config(self.folder)
                found[trial.name] = trial
        return list(found.values())


def short_name(settings: Mapping[str, object], varied: Sequence[str]) -> str:
    """v4-alpha0.05-seed1: the method and what varies; a whole key where last words are alike."""
    last = {key: key.rpartition(".")[2] for key in varied}
    words = [str(settings["method"])] if "method" in settings else []
    for key in varied:
        if key in settings and key != "method":
            shown = last[key] if list(last.values()).count(last[key]) == 1 else key
            words.append(f"{shown}{settings[key]}".replace("/", "_"))
    return "-".join(words) or "run"


def read_plan(path: Path, at_once: int | None = None) -> Plan:
    content = read_yaml(path, "sweep")
    if not isinstance(content, dict):
        raise UserError(f"sweep {path}: must be a mapping with {', '.join(KEYS)}")
    for key in content:
        if key not in KEYS:
            known = ", ".join(KEYS)
            raise UserError(
                f"sweep {path}: {key} is unknown{suggestion(str(key), KEYS)} (known: {known})"
            )
    grid = flatten(as_mapping(content, "grid", path))
    for key, values in grid.items():
        if not isinstance(values, list) or not values:
            raise UserError(f"sweep {path}: grid.{key} must be a list of values, not {values}")
    alternatives = content.get("list") or [{}]
    if not isinstance(alternatives, list) or not all(isinstance(each, dict) for each in alternatives):
        raise UserError(f"sweep {path}: list must be a list of settings, such as {{method: v4}}")
    settings = flatten(as_mapping(content, "settings", path))
    wanted = at_once or content.get("at_once", default_at_once(settings))
    if not isinstance(wanted, int) or wanted < 1:
        raise UserError(f"sweep {path}: at_once={wanted} must be a whole number, 1 or more")
    search = {"trials": TRIALS, **as_mapping(content, "search", path)} if "search" in content else None
    if search is not None and ("grid" in content or "list" in content):
        raise UserError(f"sweep {path}: has a search and a grid or a list; make them two files")
    if "out" in settings:
        raise UserError(f"sweep {path}: settings.out={settings['out']}: say out beside settings")
    if content.get("baseline") is not None:
        METHODS.get(str(content["baseline"]))
    return Plan(
        folder=Path(str(content.get("out") or Path("runs") / path.stem)).expanduser(),
        settings=settings,
        alternatives=[flatten(each) for each in alternatives],
        grid={key: list(values) for key, values in grid.items() if isinstance(values, list)},
        search=search,
        at_once=wanted,
        baseline=content.get("baseline"),
    )


def as_mapping(content: Mapping[str, Any], key: str, path: Path) -> Mapping[str, Any]:
    value = content.get(key) or {}
    if not isinstance(value, dict):
        raise UserError(f"sweep {path}: {key} must be a mapping of settings")
    return value


def default_at_once(settings: Mapping[str, object]) -> int:
    """As many as there are cores, each on one; a GPU is shared by two."""
    import torch

    on_gpu = torch.cuda.is_available() and settings.get("device") != "cpu"
    return RUNS_ON_A_GPU if on_gpu else cores()


def cores() -> int:
    """Those that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def run_sweep(plan: Plan, on_end: Callable[[Ended], None]) -> list[Ended]:
    """All runs of a grid or list; what finished in an earlier start is not run again."""
    trials, ended = plan.trials(), []
    waiting = []
    for trial in trials:
        finished = earlier(plan.folder / trial.name, trial)
        if finished is None:
            waiting.append(trial)
        else:
            ended.append(finished)
            on_end(finished)
    feed = iter(waiting)
    with Workers(plan) as workers:
        for done in workers.through(lambda: next(feed, None)):
            ended.append(done)
            on_end(done)
    order = {trial.name: number for number, trial in enumerate(trials)}
    return sorted(ended, key=lambda each: order[each.trial.name])


def earlier(folder: Path, trial: Trial) -> Ended | None:
    """A run of an earlier start that ended; one that did not is put aside, never deleted."""
    from anchorfl.records import read_run

    if not folder.is_dir() or not any(folder.iterdir()):
        return None
    try:
        run = read_run(folder)
    except UserError:
        put_aside(folder)
        return None
    wanted = flatten(trial.config(folder.parent).to_dict())
    ignored = set(INCIDENTAL)
    if wanted["partition.kind"] == "file":
        ignored |= {"data.validation", "partition.clients", "partition.public"}
    for key in sorted(wanted.keys() | run.settings.keys()):
        stored, now = run.settings.get(key), wanted.get(key)
        if key not in ignored and stored != now:
            raise UserError(f"{folder}: was run with {key}={stored}, not {now}; name another out")
    if not run.summary or not any(run.summary.get("upload_bytes") or []):
        put_aside(folder)
        return None
    return summarised(trial, run.summary, run.evaluations, skipped=True)


def put_aside(folder: Path) -> None:
    """Rename it NAME.unfinished, or the first of NAME.unfinished-2, ... that is free."""
    aside = new_folder(folder.parent, f"{folder.name}.unfinished")
    folder.replace(aside)


def summarised(
    trial: Trial, summary: Mapping[str, Any], evaluations: Sequence[Mapping[str, Any]], skipped: bool
) -> Ended:
    validation = evaluations[-1]["validation_accuracy"] if evaluations else None
    stopped = summary["status"] != "finished"
    figures = summary["seconds"], summary["final_accuracy"], validation
    return Ended(trial, *figures, stopped=stopped, skipped=skipped)


class Workers:
    """Processes that each run one experiment after another, a share of the cores each."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.pool = self._start()

    def _start(self) -> ProcessPoolExecutor:
        threads = max(1, cores() // self.plan.at_once)
        context = get_context("spawn")
        return ProcessPoolExecutor(
            self.plan.at_once, context, initializer=take_threads, initargs=(threads,)
        )

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Wait for what is running; not where the user or an error ends the sweep."""
        self.pool.shutdown(wait=False, cancel_futures=True)
        if kind is not None:
            for process in active_children():
                process.terminate()
        self.pool.shutdown()

    def through(self, ask: Callable[[], Trial | None]) -> Iterator[Ended]:
        """Run what `ask` gives until it gives None, `at_once` at a time; yields as they end."""
        running: dict[Future[Ended], Trial] = {}
        more = True
        while more or running:
            while more and len(running) < self.plan.at_once:
                trial = ask()
                more = trial is not None
                if trial is not None:
                    running[self.pool.submit(run_trial, trial, self.plan.folder)] = trial
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            died = False
            for future in done:
                trial = running.pop(future)
                try:
                    yield future.result()
                except BrokenProcessPool:
                    died = True
                    yield Ended(trial, 0.0, {}, error="its process died (out of memory?)")
            if died and not running:
                self.pool = self._start()


def take_threads(threads: int) -> None:
    import torch

    torch.set_num_threads(threads)


def run_trial(trial: Trial, folder: Path) -> Ended:
    """In a worker: a failure ends this run, not the sweep."""
    from anchorfl.experiment import run_config
    from anchorfl.records import read_run

    started = time.perf_counter()
    try:
        result = run_config(trial.config(folder))
    except Exception as error:  # whatever goes wrong in one run is told beside the others
        told = " ".join(f"{type(error).__name__}: {error}".split())
        return Ended(trial, time.perf_counter() - started, {}, error=told)
    return summarised(trial, result.summary, read_run(result.folder).evaluations, skipped=False)
