"""A run that was cut off goes on to exactly what it would have been."""

from __future__ import annotations

import errno
import json
import os
import random
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from anchorfl import load_run
from anchorfl.errors import UserError
from anchorfl.events import BatchTrained, Event, Listener, RoundEnded, Warned
from anchorfl.files import locked
from anchorfl.fusion import mean_weights
from anchorfl.messages import Task, Upload
from anchorfl.methods import METHODS as TABLE
from anchorfl.methods import Method
from anchorfl.runs import Run, read_run
from anchorfl.server import SERVER_HALVES, ServerHalf
from anchorfl.settings import resolve
from anchorfl.simulate import run_in_folder
from tests.simulate.folders import assert_same

CAPPED = {"align.guard": "cap", "align.classes": "batch", "align.sigma_lr": 0.5}
METHODS = {
    "v12": CAPPED,
    "v4": {"train.reset_optimizer": True, "upload.batchnorm": "running", "train.checkpoint_every": 2},
    "v6": {"align.teacher_epochs": 2, "train.local_epochs": 2},
    "fedavg": {},
    "fedproto": {},
    "none": {},
}


class CutError(Exception):
    """Ends a run from within, as a kill would, between two events."""


def cut_after(number: int) -> Listener:
    def listen(event: Event) -> None:
        if isinstance(event, RoundEnded) and event.round == number:
            raise CutError

    return listen


def run(folder: Path, method: str = "v12", *listeners: Listener, restart: bool = False) -> Run:
    fusion = "sketch-ridge" if method == "none" else "class-mean,feature-mean"
    settings = {"train.rounds": 5, "seed": 3, "fusion": fusion, **METHODS[method]}
    return run_in_folder(resolve(method, {**settings, "out": str(folder)}), listeners, restart)


def cut(folder: Path, number: int = 3, method: str = "v12") -> None:
    with pytest.raises(CutError):
        run(folder, method, cut_after(number))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run(tmp_path_factory.mktemp("whole") / "run").folder


@pytest.mark.parametrize("method", METHODS)
def test_cut_twice_and_gone_on_with_a_run_is_the_same(method: str, tmp_path: Path) -> None:
    run(tmp_path / "whole", method)
    for number in (1, 3):
        cut(tmp_path / "cut", number, method)
    run(tmp_path / "cut", method)
    assert_same(tmp_path / "whole", tmp_path / "cut")


class MeanPrototypes(ServerHalf):
    """All start again from the mean of the weights, and align to its prototypes: the same tensor."""

    def step(self, task: Task, uploads: Sequence[Upload]) -> Task:
        weights = mean_weights(uploads)
        target = weights["prototypes"]
        return replace(task, weights=weights, target=target, round=task.round + 1, first=task.hash)


def test_a_server_may_send_a_part_of_the_weights_as_the_target(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two names of one tensor cannot be written as they are."""
    method = Method("mean prototypes", "fixed", server="mean-prototypes")
    monkeypatch.setitem(SERVER_HALVES._entries, "mean-prototypes", MeanPrototypes)
    monkeypatch.setitem(TABLE._entries, "own", method)
    monkeypatch.setitem(METHODS, "own", {})
    run(tmp_path / "whole", "own")
    for number in (1, 3):
        cut(tmp_path / "cut", number, "own")
    run(tmp_path / "cut", "own")
    assert_same(tmp_path / "whole", tmp_path / "cut")
    for own in read_run(tmp_path / "cut").clients.values():
        assert own[0]["align_loss"] > 0.5
        assert own[-1]["align_loss"] < 1e-3


def test_it_does_not_begin_anew(tmp_path: Path) -> None:
    cut(tmp_path / "run")
    trained = []
    run(
        tmp_path / "run",
        "v12",
        lambda e: trained.append(e.round) if isinstance(e, BatchTrained) else None,
    )
    assert set(trained) == {3, 4}


def test_a_run_of_another_format_is_refused_and_left_as_it_is(whole: Path, tmp_path: Path) -> None:
    cut(tmp_path / "run")
    config = tmp_path / "run" / "config.yaml"
    text = config.read_text()
    config.write_text(text.replace("format: 6", "format: 5"))
    for restart in (False, True):
        with pytest.raises(UserError, match="is of format 5; this anchorfl reads format 6"):
            run(tmp_path / "run", restart=restart)
    config.write_text(text)
    assert len(read_run(tmp_path / "run").evaluations) == 4
    run(tmp_path / "run")
    assert_same(whole, tmp_path / "run")


def test_a_cut_run_holds_two_checkpoints_and_says_that_it_failed(tmp_path: Path) -> None:
    cut(tmp_path / "run")
    assert len(list((tmp_path / "run" / "checkpoints").iterdir())) == 2
    assert read_run(tmp_path / "run").unfinished
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["status"] == "failed"


def test_restart_begins_anew_and_keeps_the_old_one_aside(whole: Path, tmp_path: Path) -> None:
    cut(tmp_path / "run")
    run(tmp_path / "run", restart=True)
    assert_same(whole, tmp_path / "run")
    assert (tmp_path / "run.unfinished" / "metrics.jsonl").is_file()


def test_another_experiment_in_the_folder_is_refused(tmp_path: Path) -> None:
    cut(tmp_path / "run")
    with pytest.raises(UserError, match=r"holds a run with train\.rounds=5, not 7"):
        run_in_folder(
            resolve(
                "v12",
                {
                    "train.rounds": 7,
                    "seed": 3,
                    "fusion": "class-mean,feature-mean",
                    **CAPPED,
                    "out": str(tmp_path / "run"),
                },
            )
        )


def test_a_finished_run_is_left_alone(whole: Path) -> None:
    with pytest.raises(UserError, match="holds another run already"):
        run(whole)


def test_other_data_under_the_same_words_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut(tmp_path / "run")
    monkeypatch.setattr("anchorfl.data.partition.Partition.hash", "another")
    with pytest.raises(UserError, match="are not those that this run began with"):
        run(tmp_path / "run")


def test_a_second_process_is_refused_with_the_number_of_the_first(tmp_path: Path) -> None:
    cut(tmp_path / "run")
    with locked(tmp_path / "run"), pytest.raises(UserError, match=f"in use by process {os.getpid()}"):
        run(tmp_path / "run")
    run(tmp_path / "run")


def damage(file: Path, draw: random.Random) -> None:
    """Cut it, or turn a byte round."""
    data = bytearray(file.read_bytes())
    place = draw.randrange(len(data))
    if draw.random() < 0.5:
        del data[place:]
    else:
        data[place] ^= 1 << draw.randrange(8)
    file.write_bytes(data)


@pytest.mark.parametrize(
    "number", [0, 1, 4, *(pytest.param(n, marks=pytest.mark.soak) for n in range(50))]
)
def test_a_damaged_checkpoint_is_passed_over(number: int, whole: Path, tmp_path: Path) -> None:
    draw = random.Random(number)
    cut(tmp_path / "run")
    old, new = sorted((tmp_path / "run" / "checkpoints").iterdir())
    damaged = [new] if number % 3 else [new, old]
    if number % 5 == 4:
        damaged = [tmp_path / "run" / "metrics.jsonl"]
    for file in damaged:
        damage(file, draw)
    warnings: list[str] = []
    run(tmp_path / "run", "v12", lambda e: warnings.append(e.about) if isinstance(e, Warned) else None)
    assert_same(whole, tmp_path / "run")
    assert "damaged-checkpoint" in warnings or damaged[0].name == "metrics.jsonl"


@pytest.mark.parametrize(
    ("last", "status"),
    [
        ("simulate.simulation.Simulation.write_uploads", "failed"),
        ("model.fused.FusedModel.save", "failed"),
        ("report.listener.write_page", "finished"),
    ],
)
def test_a_run_cut_while_what_it_leaves_is_written_goes_on(
    last: str, status: str, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(f"anchorfl.{last}", full)
        with pytest.raises(UserError, match=r"No space left on device; anchorfl run .*/run resumes"):
            run(tmp_path / "run")
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["status"] == status
    with pytest.raises(UserError, match=r"run: the run did not finish.*anchorfl run .*/run resumes it"):
        load_run(tmp_path / "run")
    assert len(read_run(tmp_path / "run").evaluations) == 5
    run(tmp_path / "run")
    assert_same(whole, tmp_path / "run")


def test_a_folder_that_vanishes_is_one_line(tmp_path: Path) -> None:
    def vanish(event: Event) -> None:
        if isinstance(event, RoundEnded) and event.round == 1:
            shutil.rmtree(tmp_path / "run")

    with pytest.raises(UserError, match="No such file or directory"):
        run(tmp_path / "run", "v12", vanish)


def test_too_little_memory_is_one_line(tmp_path: Path) -> None:
    def starve(event: Event) -> None:
        if isinstance(event, RoundEnded):
            raise MemoryError

    with pytest.raises(UserError, match=r"memory is not enough; lower train\.batch_size"):
        run(tmp_path / "run", "v12", starve)
