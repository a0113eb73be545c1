"""Which settings tell runs apart, seeds and machines aside."""

from __future__ import annotations

import json
from collections.abc import Sequence
from hashlib import sha256

from anchorfl.errors import UserError
from anchorfl.runs import INCIDENTAL, Run
from anchorfl.settings import flatten, resolve

SAME = ("data.name", "partition.kind", "partition.alpha", "partition.clients")
"""What runs must share to be compared."""
REPEATED = ("seed", "partition.seed")


def telling_settings(runs: Sequence[Run]) -> list[dict[str, str]]:
    """For every run what tells it from the others, beside its method."""
    keys = differing_settings(runs)
    methods = dict.fromkeys(run.method for run in runs)
    within = {name: differing_settings([run for run in runs if run.method == name]) for name in methods}
    usual = {name: align_defaults(name) for name in methods}
    codes = {name: {code_of(run) for run in runs if run.method == name} for name in methods}
    return [
        ({"code": code_of(run)} if len(codes[run.method]) > 1 else {})
        | {
            key: str(run.settings[key])
            for key in keys
            if key in run.settings
            and (key in within[run.method] or usual[run.method].get(key) != str(run.settings[key]))
        }
        for run in runs
    ]


def code_of(run: Run) -> str:
    """The first letters of a hash of all code of the user's own that the run was made by."""
    return sha256(json.dumps(dict(run.code), sort_keys=True).encode()).hexdigest()[:6]


def differing_settings(runs: Sequence[Run]) -> list[str]:
    ignored = {"method", *SAME, *REPEATED, *INCIDENTAL}
    keys = sorted({key for run in runs for key in run.settings} - ignored)
    return [
        key for key in keys if len({str(run.settings.get(key)) for run in own_family(runs, key)}) > 1
    ]


def own_family(runs: Sequence[Run], key: str) -> list[Run]:
    """An align key is compared among the runs of methods that have it."""
    return [run for run in runs if key in run.settings or not key.startswith("align.")]


def align_defaults(method: str) -> dict[str, str]:
    """What the method's name says already; nothing for a method that is not installed here."""
    try:
        settings = flatten(resolve(method, {}).to_dict())
    except UserError:
        return {}
    return {key: str(value) for key, value in settings.items() if key.startswith("align.")}
