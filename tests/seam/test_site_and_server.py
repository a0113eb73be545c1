"""What a site may be sent, what it sends, and where it can be picked up again."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from anchorfl import Experiment, load_run
from anchorfl.data import ImageStore, Shard
from anchorfl.errors import UserError
from anchorfl.events import ClientRound, as_record
from anchorfl.loop import InProcess
from anchorfl.messages import Task, Upload, pack, unpack
from anchorfl.prepare import Setup
from anchorfl.server import Refusal, Server
from anchorfl.site import Site, Trainer
from tests.conftest import CPU, make_setup, tiny_split

NAMES = tuple("abcd")


def a_setup(method: str = "v12-gamma", **settings: object) -> Setup:
    return make_setup(method, **{"train.rounds": 4, **settings})


def a_task(method: str = "v12-gamma", **settings: object) -> Task:
    return a_setup(method, **settings).task


def a_site(task: Task, name: str = "north") -> Site:
    """As in a process of its own: it knows of the task what arrived."""
    return Site(Trainer(Setup.of(Task.from_bytes(task.to_bytes())), CPU), tiny_split(), name)


def test_a_task_holds_class_names_and_a_hash_that_its_uploads_repeat() -> None:
    task = a_task()
    arrived = Task.from_bytes(task.to_bytes())
    assert arrived.class_names == NAMES
    assert arrived.hash == task.hash
    assert a_task(**{"train.lr": 0.04}).hash != task.hash
    site = a_site(task)
    assert len(list(site.train())) == 4
    upload = Upload.from_bytes(site.upload().to_bytes())
    assert (upload.site, upload.task, upload.network) == ("north", task.hash, "small-cnn")
    first = next(name for name in upload.trained if name.startswith("encoder."))
    lacking = {name: value for name, value in upload.trained.items() if name != first}
    server = Server(task, CPU)
    for changed, reason in (
        (replace(upload, task="another"), "the upload of north: answers another task"),
        (replace(upload, network="resnet18"), "the upload of north: is of resnet18, not of small-cnn"),
        (replace(upload, trained=lacking), "the upload of north: weights do not fit the model"),
    ):
        refusal = server.receive(changed.to_bytes())
        assert isinstance(refusal, Refusal)
        assert str(refusal).startswith(reason)
        with pytest.raises(UserError, match=reason):
            server.require_enough()
    assert not server.uploads
    assert server.receive(upload.to_bytes()) is None
    server.require_enough()
    assert list(server.uploads) == ["north"]
    again = server.receive(upload.to_bytes())
    assert str(again) == "the upload of north: this site has uploaded already"


def test_a_changed_byte_is_noticed() -> None:
    data = bytearray(a_task().to_bytes())
    data[-9] ^= 1
    with pytest.raises(UserError, match="this task is damaged"):
        Task.from_bytes(bytes(data))


def test_a_task_brings_no_path_and_no_code(tmp_path: Path) -> None:
    body = "return nn.Sequential(nn.Flatten(), nn.Linear(64, 9))"
    code = f"from torch import nn\ndef wide(shape):\n    {body}\n"
    (tmp_path / "own.py").write_text(code)
    (tmp_path / "theirs.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n{code}")
    data = a_task("v4", **{"model.name": f"{tmp_path}/own.py:wide"}).to_bytes()
    assert str(tmp_path).encode() not in data
    arrived = Task.from_bytes(data)
    with pytest.raises(UserError, match=r"encoder is code \(code:wide\).* --model FILE\.py:NAME"):
        Setup.of(arrived)
    with pytest.raises(UserError, match=r"encoder is code \(code:wide\)"):
        Site(arrived, tiny_split(), "north")
    setup = Setup.of(arrived, f"{tmp_path}/own.py:wide")
    site = Site(Trainer(setup, CPU), tiny_split(), "north")
    assert Upload.from_bytes(site.upload().to_bytes()).network == setup.task.encoder == "code:wide"
    assert setup.task.hash == arrived.hash
    content, tensors = unpack("task", data)
    content["settings"]["model.name"] = f"{tmp_path}/theirs.py:wide"
    theirs = Task.from_bytes(pack("task", content, tensors))
    for use in (Setup.of, Server, lambda task: Site(task, tiny_split(), "north")):
        with pytest.raises(UserError, match="which a task may not bring along"):
            use(theirs)
    assert not (tmp_path / "ran").exists()


def test_telemetry_is_a_part_of_an_upload_with_a_switch() -> None:
    site = a_site(a_task())
    report = site.train_round(0)
    assert report.lambda_raw is not None
    record = as_record(report)
    assert ClientRound.from_record(json.loads(json.dumps(record))) == report
    silent = site.upload()
    assert silent.telemetry == ()
    told = Upload.from_bytes(replace(silent, telemetry=(report,)).to_bytes())
    assert told.telemetry == (report,)
    less = {key: value for key, value in record.items() if key != "base_loss"}
    for other in (
        None,
        [],
        7,
        {"round": "x"},
        less,
        {**record, "round": 0.5},
        {**record, "steps": "x"},
    ):
        with pytest.raises(UserError, match="not a valid report"):
            ClientRound.from_record(other)


def test_without_telemetry_an_engine_passes_on_no_report() -> None:
    for telemetry in (True, False):
        engine = in_process(a_setup(**{"upload.telemetry": telemetry}))
        reports = list(engine.train(0, lambda event: None))
        assert [report.client for report in reports] == ([0, 1] if telemetry else [])


def test_a_site_follows_the_later_tasks_of_a_method_of_many_rounds() -> None:
    """By the site's own methods alone it aligns to what the server sent last."""
    task = a_task("fedproto", **{"upload.min_count": 1})
    site, server = a_site(task), Server(task, CPU)
    for number in range(2):
        site.train_round(number)
        assert server.receive(site.upload()) is None
        following = server.next_task()
        assert following is not None
        site.receive(Task.from_bytes(following.to_bytes()))
        assert following.target is not None
        assert following.target.any()
        torch.testing.assert_close(site.trainer.target, following.target)


def test_a_run_without_telemetry_has_a_page_and_a_diagnosis(tmp_path: Path) -> None:
    settings = {"train": {"rounds": 2}, "upload": {"telemetry": False}, "seed": 1}
    result = Experiment("v12", out=tmp_path / "run", **settings).run()
    assert not result.run.clients
    assert result.accuracy["sketch-guided"] > 0.9
    assert "test accuracy of sketch-guided" in (tmp_path / "run" / "report.html").read_text()


def in_process(setup: Setup) -> InProcess:
    """Two sites."""
    owns, store = [np.arange(9), np.arange(9, 24)], ImageStore(tiny_split(), CPU)
    return InProcess(setup, owns, store, Shard.whole(tiny_split(), CPU), CPU)


def test_a_site_goes_on_from_a_checkpoint_as_if_nothing_had_happened() -> None:
    whole, first, second = (in_process(a_setup(**{"align.guard": "cap"})) for _ in range(3))
    for number in range(4):
        list(whole.train(number, lambda event: None))
    for number in range(2):
        list(first.train(number, lambda event: None))
    second.restore(first.checkpoint())
    for number in range(2, 4):
        list(second.train(number, lambda event: None))
    for one, other in zip(whole.checkpoint().values(), second.checkpoint().values(), strict=True):
        assert all(torch.equal(one[name], other[name]) for name in one)


def test_nothing_is_trained_and_the_upload_holds_sums_alone(tmp_path: Path) -> None:
    result = Experiment("none", seed=1, out=tmp_path / "run").run()
    assert set(result.accuracy) == {"sketch-lda", "sketch-ridge"}
    assert result.accuracy["sketch-lda"] > 0.97
    upload = Upload.from_bytes((tmp_path / "run" / "uploads" / "client-000.safetensors").read_bytes())
    assert not upload.trained
    assert {name.partition("/")[0] for name in upload.statistics} == {"sketch_moments"}
    images = torch.rand(3, 1, 8, 8)
    assert load_run(tmp_path / "run").predictor(images).shape == (3, 10)
    with pytest.raises(UserError, match="class-mean needs encoders, and method none trains none"):
        Experiment("none", fusion="class-mean").run()


@pytest.mark.parametrize("method", ["fedavg", "fedproto"])
def test_rounds_of_exchange_help_where_the_labels_are_spread(method: str, tmp_path: Path) -> None:
    settings = {"partition": {"alpha": 100}, "seed": 1}
    once, often = (
        Experiment(method, train={"rounds": n}, out=tmp_path / str(n), **settings).run() for n in (1, 6)
    )
    primary = next(iter(once.accuracy))
    assert often.accuracy[primary] > once.accuracy[primary]
