"""Many experiments from one file, several at once, picked up where they stopped.

settings:                        # for every run, as `anchorfl run` takes them
  data.name: digits
  train.rounds: 10
list:                            # each of these ...
  - {method: v4}
  - {method: v12-gamma, align.gamma: 0.02, name: small-gamma}   # in tables and of its folder, if wanted
grid:                            # ... with each combination of these
  partition.alpha: [0.05, 0.5]
  seed: [1, 2, 3]
at_once: 2
out: runs/my-sweep
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from anchorfl.compute import cores
from anchorfl.config import Config
from anchorfl.errors import UserError
from anchorfl.methods import METHODS
from anchorfl.registry import suggestion
from anchorfl.runs import folder_name
from anchorfl.settings import flatten, import_named, read_yaml, refuse_unused, resolve

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
        import_named(settings)
        return resolve(str(settings.pop("method", "v4")), settings)


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
        datasets = []
        for alternative in self.alternatives:
            for values in itertools.product(*self.grid.values()):
                chosen = dict(zip(self.grid, values, strict=True))
                own = {**alternative, **chosen}
                name = own.pop("name", None)
                shown = own if name is None else {"method": name, **chosen}
                label = {} if name is None else {"label": name}
                trial = Trial(short_name(shown, varied), {**self.settings, **label, **own})
                if trial.name in found:
                    raise UserError(f"two runs of the sweep are the same: {trial.name}")
                datasets.append(trial.config(self.folder).data.name)
                found[trial.name] = trial
        refuse_unused([*self.settings, *varied], *datasets)
        return list(found.values())


def short_name(settings: Mapping[str, object], varied: Sequence[str]) -> str:
    """v4-alpha0.05-seed1: the method and what varies; a whole key where last words are alike."""
    last = {key: key.rpartition(".")[2] for key in varied}
    words = [str(settings["method"])] if "method" in settings else []
    for key in varied:
        if key in settings and key != "method":
            shown = last[key] if list(last.values()).count(last[key]) == 1 else key
            words.append(f"{shown}{settings[key]}")
    return folder_name("-".join(words) or "run")


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
        raise UserError(f"sweep {path}: settings.out={settings['out']}: write out at the top level")
    if content.get("baseline") is not None:
        import_named({"method": content["baseline"]})
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
    on_gpu = torch.cuda.is_available() and settings.get("device") != "cpu"
    return RUNS_ON_A_GPU if on_gpu else cores()
