"""What a site may be sent, what it sends, and where it can be picked up again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from anchorfl import Experiment, load_run
from anchorfl.data import ImageStore
from anchorfl.engine.in_process import InProcess
from anchorfl.errors import UserError
from anchorfl.server import Server
from anchorfl.settings import resolve
from anchorfl.site import Site
from anchorfl.wire import ClientRound, Task, Upload, pack, unpack
from tests.conftest import CPU, FACTS, tiny_split

NAMES = tuple("abcd")


def a_task(method: str = "v12-gamma", **settings: object) -> Task:
    return Task.prepare(resolve(method, {"train.rounds": 4, **settings}), FACTS, NAMES)


def test_a_task_holds_class_names_and_a_hash_that_its_uploads_repeat() -> None:
    task = a_task()
    arrived = Task.from_bytes(task.to_bytes())
    assert arrived.class_names == NAMES
    assert arrived.hash == task.hash
    assert a_task(**{"train.lr": 0.04}).hash != task.hash
    site = Site(0, tiny_split(), CPU)
    site.receive(task.to_bytes())
    site.train(0)
    upload = Upload.from_bytes(site.upload())
    assert (upload.task, upload.network) == (task.hash, "small-cnn")
    stranger = replace(upload, task="another").to_bytes()
    with pytest.raises(UserError, match="the upload of site 0: answers another task"):
        Server(task, CPU).receive([stranger])
    other = replace(upload, network="resnet18").to_bytes()
    with pytest.raises(UserError, match=r"site 0: is of resnet18, not of small-cnn"):
        Server(task, CPU).receive([other])
    first = next(name for name in upload.trained if name.startswith("encoder."))
    lacking = {name: value for name, value in upload.trained.items() if name != first}
    with pytest.raises(UserError, match=r"site 0: weights do not fit the model"):
        Server(task, CPU).receive([replace(upload, trained=lacking).to_bytes()])


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
    with pytest.raises(UserError, match=r"encoder is code \(code:wide\).* model\.name=FILE\.py:NAME"):
        Task.from_bytes(data)
    task = Task.from_bytes(data, model=f"{tmp_path}/own.py:wide")
    site = Site(0, tiny_split(), CPU, model=f"{tmp_path}/own.py:wide")
    site.receive(data)
    assert Upload.from_bytes(site.upload()).network == task.encoder == "code:wide"
    content, tensors = unpack("task", data)
    content["config"]["model.name"] = f"{tmp_path}/theirs.py:wide"
    with pytest.raises(UserError, match="which a task may not bring along"):
        Task.from_bytes(pack("task", content, tensors))
    assert not (tmp_path / "ran").exists()


def test_telemetry_is_a_message_with_a_switch() -> None:
    site = Site(0, tiny_split(), CPU)
    site.receive(a_task().to_bytes())
    report = site.train(0)
    assert report is not None
    read = ClientRound.from_bytes(report)
    assert read.lambda_raw is not None
    assert ClientRound.from_bytes(read.to_bytes()) == read
    silent = Site(0, tiny_split(), CPU)
    silent.receive(a_task(**{"upload.telemetry": False}).to_bytes())
    assert silent.train(0) is None
    for data in (b"", b"[]", b'{"round": "x"}', report.replace(b"base_loss", b"base_lost")):
        with pytest.raises(UserError, match="not a valid report"):
            ClientRound.from_bytes(data)


def test_a_run_without_telemetry_has_a_page_and_a_diagnosis(tmp_path: Path) -> None:
    settings = {"train": {"rounds": 2}, "upload": {"telemetry": False}, "seed": 1}
    result = Experiment("v12", out=tmp_path / "run", **settings).run()
    assert not result.run.clients
    assert result.accuracy["sketch-guided"] > 0.9
    assert "test accuracy of sketch-guided" in (tmp_path / "run" / "report.html").read_text()


def test_a_site_goes_on_from_a_checkpoint_as_if_nothing_had_happened() -> None:
    owns = [np.arange(9), np.arange(9, 24)]

    def engine() -> InProcess:
        made = InProcess(owns, ImageStore(tiny_split(), CPU), ImageStore(tiny_split(), CPU), CPU)
        made.send(a_task(**{"align.guard": "cap"}))
        return made

    whole, first, second = engine(), engine(), engine()
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
