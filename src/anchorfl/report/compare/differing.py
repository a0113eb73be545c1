"""Which settings tell runs apart, seeds and machines aside."""

from __future__ import annotations

import json
from collections.abc import Sequence
from hashlib import sha256

from anchorfl.errors import UserError
from anchorfl.registry import DATASETS, METHODS
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
    usual = {name: defaults_of(name, str(runs[0].settings.get("data.name"))) for name in methods}
    codes = {name: {code_of(run) for run in runs if run.method == name} for name in methods}

    def tells(run: Run, key: str) -> bool:
        """Of what a method's runs agree on, only what is not the method's own; fusions have columns."""
        if key in within[run.method]:
            return True
        if key == "fusion" or not own_family([run], key):
            return False
        return usual[run.method].get(key) != str(run.settings[key])

    return [
        ({"code": code_of(run)} if len(codes[run.method]) > 1 else {})
        | {key: str(run.settings[key]) for key in keys if key in run.settings and tells(run, key)}
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
    """Those that a key says anything of: options of a method, of a fusion, of training."""
    if key.startswith("train."):
        return [run for run in runs if trains(run.method)]
    return [run for run in runs if key in run.settings or not key.startswith(("align.", "fusion."))]


def trains(method: str) -> bool:
    """Taken for granted of a method that is not installed here."""
    try:
        return METHODS.get(method).trains
    except UserError:
        return True


def defaults_of(method: str, dataset: str) -> dict[str, str]:
    """What the method's name says already; nothing for one that is not installed here."""
    try:
        known = {"data.name": dataset} if dataset in DATASETS else {}
        settings = flatten(resolve(method, known).to_dict())
    except UserError:
        return {}
    return {key: str(value) for key, value in settings.items()}
