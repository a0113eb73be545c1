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
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import yaml

from anchorfl.config import Config, flatten, resolve
from anchorfl.errors import UserError
from anchorfl.registry import suggestion

KEYS = ("settings", "list", "grid", "search", "at_once", "out", "baseline")
RUNS_ON_A_GPU = 2


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
    """How a run of a sweep went; `error` in one line where it did not finish."""

    trial: Trial
    seconds: float
    accuracy: Mapping[str, float]
    validation: Mapping[str, float] | None = None
    error: str | None = None
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
    """v4-alpha0.05-seed1: the method, and what varies."""
    words = [str(settings["method"])] if "method" in settings else []
    for key in varied:
        if key in settings and key != "method":
            words.append(f"{key.rpartition('.')[2]}{settings[key]}".replace("/", "_"))
    return "-".join(words) or "run"


def read_plan(path: Path, at_once: int | None = None) -> Plan:
    try:
        content = yaml.safe_load(path.read_text())
    except OSError as error:
        raise UserError(f"sweep {path}: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError):
        raise UserError(f"sweep {path}: is not YAML") from None
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
    wanted = at_once or content.get("at_once") or default_at_once(content)
    if not isinstance(wanted, int) or wanted < 1:
        raise UserError(f"sweep {path}: at_once={wanted} must be a whole number, 1 or more")
    search = as_mapping(content, "search", path) if "search" in content else None
    if search is not None and ("grid" in content or "list" in content):
        raise UserError(f"sweep {path}: has a search and a grid or a list; make them two files")
    return Plan(
        folder=Path(content.get("out") or Path("runs") / path.stem).expanduser(),
        settings=flatten(as_mapping(content, "settings", path)),
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


def default_at_once(content: Mapping[str, Any]) -> int:
    """As many as there are cores, each on one; a GPU is shared by two."""
    import torch

    wanted = flatten(content.get("settings") or {}).get("device", "auto")
    on_gpu = torch.cuda.is_available() and wanted != "cpu"
    return RUNS_ON_A_GPU if on_gpu else os.cpu_count() or 1


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
    """A run of an earlier start that finished; the rest of one that did not is cleared away."""
    from anchorfl.records import read_run

    if not (folder / "config.yaml").is_file():
        return None
    run = read_run(folder)
    for key, value in trial.settings.items():
        stored = run.settings.get(key, value)
        if str(stored) != str(value) and key != "device" and not same_number(stored, value):
            raise UserError(f"{folder}: was run with {key}={stored}, not {value}; name another out")
    if not run.summary or run.summary["status"] != "finished":
        shutil.rmtree(folder)
        return None
    return summarised(trial, run.summary, run.evaluations, skipped=True)


def same_number(first: object, second: object) -> bool:
    try:
        return float(str(first)) == float(str(second))
    except ValueError:
        return False


def summarised(
    trial: Trial, summary: Mapping[str, Any], evaluations: Sequence[Mapping[str, Any]], skipped: bool
) -> Ended:
    validation = evaluations[-1]["validation_accuracy"] if evaluations else None
    return Ended(trial, summary["seconds"], summary["final_accuracy"], validation, skipped=skipped)


class Workers:
    """Processes that each run one experiment after another, a share of the cores each."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        threads = max(1, (os.cpu_count() or 1) // plan.at_once)
        self.pool = ProcessPoolExecutor(
            plan.at_once, get_context("spawn"), initializer=take_threads, initargs=(threads,)
        )

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *_: object) -> None:
        self.pool.shutdown(cancel_futures=True)

    def through(self, ask: Callable[[], Trial | None]) -> Iterator[Ended]:
        """Run what `ask` gives until it gives None, `at_once` at a time; yields as they end."""
        running: set[Future[Ended]] = set()
        more = True
        while more or running:
            while more and len(running) < self.plan.at_once:
                trial = ask()
                more = trial is not None
                if trial is not None:
                    running.add(self.pool.submit(run_trial, trial, self.plan.folder))
            done, running = wait(running, return_when=FIRST_COMPLETED)
            yield from (future.result() for future in done)


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
