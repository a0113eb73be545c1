"""Runs in groups: those that differ in their seeds alone, and never on different data."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from math import inf

from anchorfl.errors import UserError
from anchorfl.methods import METHODS
from anchorfl.report.console import printable
from anchorfl.runs import INCIDENTAL, Run, top

SAME = ("data.name", "partition.kind", "partition.alpha", "partition.clients")
"""What runs must share to be compared."""
REPEATED = ("seed", "partition.seed")
OWN = ("align.", "fusion")
"""Settings that a run holds where its method or a fusion of its has them."""
Settings = tuple[tuple[str, str], ...]
NUMBER = re.compile(r"-?\d+(\.\d*)?(e[+-]?\d+)?")


@dataclass(frozen=True)
class Group:
    """Runs of one method that differ in their seeds alone; `settings` tell it from its other groups.

    `name` is what their own settings call them (`label`), if they agree and no other group has it.
    """

    method: str
    settings: Mapping[str, str]
    runs: list[Run]
    name: str | None = None

    @property
    def label(self) -> str:
        words = [self.method, *(f"{key}={value}" for key, value in self.settings.items())]
        return one_line(self.name or " ".join(words))

    @property
    def seeds(self) -> list[str]:
        return sorted(map(seed_of, self.runs), key=lambda seed: (len(seed), seed))

    @property
    def largest_lambda(self) -> float | None:
        return top(run.largest_lambda for run in self.runs)

    @property
    def primary(self) -> str | None:
        """The fusion that makes the predictors."""
        return next(iter(self.runs[0].summary.final_accuracy or {}), None)

    def accuracy(self, fusion: str) -> dict[str, float]:
        """At the end, in 0..1, by seed."""
        found = {seed_of(run): run.summary.accuracy(fusion) for run in self.runs}
        return {seed: value for seed, value in found.items() if value is not None}


def one_line(text: str) -> str:
    """Names may come from somebody else's files."""
    return " ".join(printable(text).split())


def seed_of(run: Run) -> str:
    """The seed, and that of the draw where it is another."""
    seed, draw = (str(run.settings.get(key)) for key in REPEATED)
    return seed if draw in (seed, "None") else f"{seed}/{draw}"


def group_runs(runs: Sequence[Run]) -> list[Group]:
    """By method, in the order of `anchorfl methods`, and by every setting that differs within one."""
    for run in runs:
        if run.summary.status != "finished":
            raise UserError(f"{run.folder}: did not finish, so it has no final accuracy to compare")
    refuse_different_data(runs)
    known = METHODS.names()
    methods = {run.method for run in runs}
    groups = []
    for method in sorted(methods, key=lambda name: (known.index(name) if name in known else inf, name)):
        alike = [run for run in runs if run.method == method]
        keys = differing(alike)
        by_settings: dict[Settings, list[Run]] = {}
        for run in alike:
            own = tuple((key, value) for key, value in settings_of(run).items() if key in keys)
            by_settings.setdefault(own, []).append(run)
        for settings in sorted(by_settings, key=in_order):
            groups.append(Group(method, dict(settings), by_settings[settings]))
    refuse_repetitions(groups)
    return named(groups)


def differing(runs: Sequence[Run]) -> list[str]:
    """The settings in which runs differ, seeds and machines aside."""
    every = [settings_of(run) for run in runs]
    keys = dict.fromkeys(key for settings in every for key in settings)
    found = []
    for key in keys:
        having = [each for each in every if key in each or not key.startswith(OWN)]
        if len({settings.get(key) for settings in having}) > 1:
            found.append(key)
    return found


def settings_of(run: Run) -> dict[str, str]:
    """By key, with a hash of the user's own code that the run was made by."""
    code = sha256(json.dumps(dict(run.code), sort_keys=True).encode()).hexdigest()[:6]
    ignored = {"method", *SAME, *REPEATED, *INCIDENTAL}
    own = {key: str(value) for key, value in sorted(run.settings.items()) if key not in ignored}
    return {"code": code, **own}


def in_order(settings: Settings) -> list[tuple[str, float, str]]:
    """Numbers by size, before words."""
    return [
        (key, float(value), "") if NUMBER.fullmatch(value) else (key, inf, value)
        for key, value in settings
    ]


def named(groups: Sequence[Group]) -> list[Group]:
    """With the labels that the runs were given."""
    given = [{run.settings.get("label") for run in group.runs} for group in groups]
    names = [str(*own) if len(own) == 1 and None not in own else None for own in given]
    return [
        replace(group, name=name if names.count(name) == 1 else None)
        for group, name in zip(groups, names, strict=True)
    ]


def refuse_different_data(runs: Sequence[Run]) -> None:
    own_images = runs[0].settings.get("data.name") == "folder"
    for key in (*SAME, "data.root") if own_images else SAME:
        values = {str(run.settings.get(key)): run.folder for run in runs}
        if len(values) > 1:
            where = ", ".join(f"{value} in {folder.name}" for value, folder in values.items())
            raise UserError(
                f"these runs cannot be averaged: {key} differs ({where}); name those of one value"
            )


def refuse_repetitions(groups: Sequence[Group]) -> None:
    for group in groups:
        first: dict[str, Run] = {}
        for run in group.runs:
            other = first.setdefault(seed_of(run), run)
            if other is not run:
                raise UserError(
                    f"{other.folder} and {run.folder} are the same experiment with the same seed:"
                    " leave one of them out"
                )


def all_fusions(groups: Sequence[Group]) -> list[str]:
    runs = [run for group in groups for run in group.runs]
    return list(dict.fromkeys(name for run in runs for name in run.summary.final_accuracy or {}))


def baseline_of(groups: Sequence[Group], name: str) -> Group:
    """The group of a method, or the one of this label where a method has several."""
    found = [group for group in groups if group.label == name]
    found = found or [group for group in groups if group.method == name]
    if len(found) != 1:
        known = ", ".join(group.label for group in found or groups)
        how_many = "several groups have" if found else "no run has"
        raise UserError(f"--baseline {name}: {how_many} this method; name one of {known}")
    return found[0]


def draws(runs: Sequence[Run]) -> str:
    """Whether who holds what changed with the seed."""
    by_seed: dict[str, set[str]] = {}
    for run in runs:
        by_seed.setdefault(seed_of(run), set()).add(str(run.summary.partition_hash))
    if any(len(found) > 1 for found in by_seed.values()):
        return "Runs of one seed have different draws: their difference is not the method's alone."
    if len(by_seed) == 1:
        return "One seed."
    every = set().union(*by_seed.values())
    return "Every seed has the same draw." if len(every) == 1 else "The draw varies with the seed."
