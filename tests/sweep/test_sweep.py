"""Sweeps as a user starts them, and what their files may hold."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from anchorfl.errors import UserError
from anchorfl.runs import read_run
from anchorfl.sweep import Ended, read_plan, run_search, run_sweep
from anchorfl.sweep.plan import short_name
from tests.conftest import command

SETTINGS = {"data.name": "digits", "train.rounds": 1, "device": "cpu"}


def write(tmp_path: Path, **content: object) -> Path:
    path = tmp_path / "sweep.yaml"
    plan = {"settings": SETTINGS, "at_once": 2, "out": str(tmp_path / "runs"), **content}
    path.write_text(yaml.safe_dump(plan))
    return path


@pytest.mark.parametrize(
    ("preset", "runs"), [("sweep-best", 3), ("sweep-digits", 12), ("sweep-fusions", 18)]
)
def test_the_sweeps_that_come_along_are_valid(tmp_path: Path, preset: str, runs: int) -> None:
    plan = read_plan(Path(__file__).parents[2] / "presets" / f"{preset}.yaml")
    configs = [trial.config(tmp_path) for trial in plan.trials()]
    assert len({str(config) for config in configs}) == runs


def test_a_grid_is_run_compared_and_not_run_again(tmp_path: Path) -> None:
    grid = {"method": ["v4", "v7"], "partition.alpha": [0.05, 0.5]}
    path = write(tmp_path, grid=grid, baseline="v4")
    done = command("sweep", str(path), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    folders = sorted(folder.name for folder in (tmp_path / "runs").iterdir())
    assert folders == ["v4-alpha0.05", "v4-alpha0.5", "v7-alpha0.05", "v7-alpha0.5"]
    assert done.stdout.count("accuracy minus that of v4") == 2
    assert "4 runs in" in done.stdout
    before = (tmp_path / "runs" / "v7-alpha0.5" / "metrics.jsonl").stat().st_mtime_ns
    summary = tmp_path / "runs" / "v4-alpha0.05" / "summary.json"
    summary.unlink()
    again = command("sweep", str(path), cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    assert again.stdout.count("ended earlier") == 3
    assert "1 runs in" in again.stdout
    assert (tmp_path / "runs" / "v7-alpha0.5" / "metrics.jsonl").stat().st_mtime_ns == before
    assert json.loads(summary.read_text())["status"] == "finished"


def test_a_sweeps_run_is_the_run_alone(tmp_path: Path) -> None:
    run_sweep(read_plan(write(tmp_path, grid={"seed": [3]})), lambda done: None)
    alone = command("run", "v4", "train.rounds=1", "seed=3", "device=cpu", "out=alone", cwd=tmp_path)
    assert alone.returncode == 0
    swept, single = read_run(tmp_path / "runs" / "seed3"), read_run(tmp_path / "alone")
    assert swept.summary.partition_hash == single.summary.partition_hash
    for client, records in single.clients.items():
        wanted = [record["base_loss"] for record in records]
        assert [record["base_loss"] for record in swept.clients[client]] == pytest.approx(
            wanted, rel=1e-3
        )


def test_a_run_that_fails_is_told_and_the_others_go_on(tmp_path: Path) -> None:
    encoder = tmp_path / "own.py"
    encoder.write_text("def broken(shape):\n    raise ValueError('no such layer')\n")
    path = write(tmp_path, list=[{"method": "v4"}, {"model.name": f"{encoder}:broken"}])
    done = command("sweep", str(path), cwd=tmp_path)
    assert done.returncode == 2
    assert "no such layer" in done.stdout
    assert "1 of 2 runs failed" in done.stderr
    assert "class-mean" in done.stdout


def test_a_process_that_dies_ends_its_run_and_not_the_sweep(tmp_path: Path) -> None:
    encoder = tmp_path / "own.py"
    encoder.write_text("import os\n\ndef deadly(shape):\n    os._exit(9)\n")
    deadly = {"model.name": f"{encoder}:deadly"}
    plan = read_plan(write(tmp_path, list=[deadly, {"method": "v4"}], at_once=1))
    ended = run_sweep(plan, lambda done: None)
    assert [done.error is None for done in ended] == [False, True]
    assert "process died" in str(ended[0].error)


@pytest.mark.parametrize(
    "settings",
    [{"fusion": ["feature-mean", "iffi"]}, {"data.flip": None}, {"train.reset_optimizer": "true"}],
)
def test_what_is_said_in_another_form_is_still_the_same_run(
    tmp_path: Path, settings: dict[str, object]
) -> None:
    path = write(tmp_path, grid={"seed": [1]}, settings={**SETTINGS, **settings})
    run_sweep(read_plan(path), lambda done: None)
    (again,) = run_sweep(read_plan(path), lambda done: None)
    assert again.skipped


def test_a_setting_left_out_now_is_noticed(tmp_path: Path) -> None:
    run_sweep(read_plan(write(tmp_path, grid={"seed": [1]})), lambda done: None)
    shorter = {key: value for key, value in SETTINGS.items() if key != "train.rounds"}
    with pytest.raises(UserError, match=r"was run with train.rounds=1, not 10"):
        run_sweep(read_plan(write(tmp_path, grid={"seed": [1]}, settings=shorter)), lambda done: None)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"gird": {}}, "did you mean grid"),
        ({"grid": {"seed": 3}}, "must be a list of values"),
        ({"grid": {"seed": [1, 1]}}, "two runs of the sweep are the same"),
        ({"grid": {"method": ["v4", "v99"]}}, "v99"),
        ({"grid": {"align.gamma": [0.1]}}, "align.gamma"),
        ({"list": {"method": "v4"}}, "must be a list of settings"),
        ({"at_once": 0.5}, "whole number"),
        ({"at_once": 0}, "whole number"),
        ({"settings": ["train.rounds"]}, "settings must be a mapping"),
        ({"settings": {"out": "elsewhere"}}, "write out at the top level"),
        ({"baseline": "v44"}, "v44"),
        ({"grid": {"seed": [1]}, "search": {"vary": {"train.lr": [0.1]}}}, "two files"),
    ],
)
def test_a_mistake_is_told_before_anything_runs(
    tmp_path: Path, content: dict[str, object], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        read_plan(write(tmp_path, **content)).trials()
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    "content",
    [
        {"settings": {**SETTINGS, "data.root": "shapes"}, "grid": {"seed": [1, 2]}},
        {"list": [{"method": "v4"}, {"method": "v7", "data.root": "shapes"}]},
        {"grid": {"data.root": ["shapes", "others"]}},
        {
            "settings": {**SETTINGS, "data.validation": 0.2, "data.root": "shapes"},
            "search": {"vary": {"train.lr": [0.01, 0.1]}},
        },
    ],
)
def test_a_key_that_no_run_of_a_sweep_can_use_is_told_before_anything_runs(
    tmp_path: Path, content: dict[str, object]
) -> None:
    done = command("sweep", str(write(tmp_path, **content)), cwd=tmp_path)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "data.root: nothing reads it with data.name=digits" in done.stderr
    assert not list(tmp_path.glob("runs/*/*"))


def test_a_key_that_some_runs_of_a_sweep_use_is_right(tmp_path: Path) -> None:
    settings = {**SETTINGS, "data.root": "shapes", "data.size": 8}
    path = write(tmp_path, settings=settings, grid={"data.name": ["digits", "folder"]})
    roots = [trial.config(tmp_path).data.root for trial in read_plan(path).trials()]
    assert roots == ["shapes", "shapes"]


def test_other_settings_in_the_same_folder_are_refused(tmp_path: Path) -> None:
    run_sweep(read_plan(write(tmp_path, grid={"seed": [1]})), lambda done: None)
    other = write(tmp_path, grid={"seed": [1]}, settings={**SETTINGS, "train.rounds": 2})
    with pytest.raises(UserError, match=r"was run with train.rounds=1, not 2"):
        run_sweep(read_plan(other), lambda done: None)


def test_names_tell_what_varies() -> None:
    settings = {"method": "v12-gamma", "align.gamma": 0.02, "data.root": "a/b", "seed": 1}
    assert short_name(settings, ["method", "align.gamma", "seed"]) == "v12-gamma-gamma0.02-seed1"
    assert short_name({"seed": 1}, ["seed", "partition.seed"]) == "seed1"
    assert short_name({"partition.seed": 1}, ["seed", "partition.seed"]) == "partition.seed1"


def test_a_search_chooses_on_held_out_data_and_goes_on_where_it_stopped(tmp_path: Path) -> None:
    settings = {**SETTINGS, "method": "v7", "data.validation": 0.2, "seed": 1}
    vary = {"align.lambda": {"low": 0.1, "high": 10.0, "log": True}, "train.batch_size": [32, 64]}

    def plan(trials: int) -> Path:
        return write(tmp_path, settings=settings, search={"trials": trials, "vary": vary})

    first: list[Ended] = run_search(read_plan(plan(2)), lambda done: None)
    assert all(0.1 <= float(str(done.trial.settings["align.lambda"])) <= 10 for done in first)
    done = command("sweep", str(plan(3)), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("ended earlier") >= 2
    assert "accuracy on held-out data" in done.stdout
    assert "best: align.lambda=" in done.stdout
    values = [each.validation["feature-mean"] for each in first if each.validation]
    assert values == sorted(values, reverse=True)


def test_a_search_without_held_out_data_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, search={"vary": {"train.lr": [0.01, 0.1]}})
    with pytest.raises(UserError, match=r"data.validation=0"):
        run_search(read_plan(path), lambda done: None)
    path = write(
        tmp_path,
        settings={**SETTINGS, "data.validation": 0.2},
        search={"vary": {"train.lr": {"low": 1}}},
    )
    with pytest.raises(UserError, match=r"search.vary.train.lr"):
        run_search(read_plan(path), lambda done: None)
    for vary in (["train.lr"], {"seed": [1, 2]}, {}):
        path = write(tmp_path, settings={**SETTINGS, "data.validation": 0.2}, search={"vary": vary})
        with pytest.raises(UserError, match="search"):
            run_search(read_plan(path), lambda done: None)
