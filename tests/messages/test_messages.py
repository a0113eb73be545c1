"""What travels: tasks and uploads, as bytes."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from anchorfl.errors import UserError
from anchorfl.events import ClientRound
from anchorfl.messages import (
    FORMAT,
    Description,
    Request,
    Start,
    Task,
    Upload,
    codec,
    pack,
    read_start,
    unpack,
)
from anchorfl.model import FusedModel
from anchorfl.prepare import Setup
from anchorfl.tensors import Encoder
from tests.conftest import FACTS, make_setup


def test_a_task_survives_the_journey_and_leaves_local_paths_behind() -> None:
    settings = {"train.lr": 0.3, "data.root": "/private/place", "device": "cpu", "out": "/private/out"}
    sent = make_setup("v7", **{**settings, "fusion": "softmax-mean"})
    task, data = sent.task, sent.task.to_bytes()
    assert b"/private" not in data
    arrived = Task.from_bytes(data)
    assert arrived.hash == task.hash
    assert arrived.facts == FACTS
    assert arrived.class_names == task.class_names == ("a", "b", "c", "d")
    assert task.target is not None
    assert arrived.target is not None
    assert torch.equal(arrived.target, task.target)
    assert all(torch.equal(arrived.weights[name], task.weights[name]) for name in task.weights)
    setup = Setup.of(arrived)
    assert setup.config.train == sent.config.train
    assert setup.config.align == sent.config.align
    assert list(setup.config.fusion) == ["softmax-mean"]
    for name, value in setup.network("small-cnn").state_dict().items():
        assert torch.equal(value, task.weights[name])


def test_a_method_without_alignment_sends_no_target() -> None:
    assert Task.from_bytes(make_setup("v4").task.to_bytes()).target is None


def test_a_task_of_a_later_round_is_of_the_same_experiment() -> None:
    task = make_setup("fedproto").task
    later = Task.from_bytes(task.later(3, {}, torch.ones(4, 128)).to_bytes())
    assert (later.hash, later.round, later.weights) == (task.hash, 3, {})
    assert later.target is not None
    assert bool((later.target == 1).all())
    other = make_setup("fedproto", **{"train.lr": 0.3}).task
    assert other.hash != task.hash


def an_upload() -> Upload:
    weights = {"prototypes": torch.randn(3, 2), "encoder.0.weight": torch.randn(4)}
    return Upload("north", torch.tensor([5, 0, 2]), weights)


def test_an_upload_survives_the_journey() -> None:
    losses = {"base_loss": 1.5, "clip_factor": 1.0, "anneal": None, "seconds": 0.1}
    report = ClientRound(round=0, client=0, samples=7, steps=2, **losses, readings={"norm": 2.0})
    sent = replace(an_upload(), telemetry=(report,))
    arrived = Upload.from_bytes(sent.to_bytes())
    assert (arrived.site, arrived.samples) == ("north", 7)
    assert arrived.telemetry == (report,)
    assert all(torch.equal(arrived.weights[name], sent.weights[name]) for name in sent.weights)


def test_a_second_exchange_survives_the_journey() -> None:
    encoders = {
        name: Encoder(network, {"prototypes": torch.randn(3, 2)})
        for name, network in (("north", "small-cnn"), ("south", "resnet18"))
    }
    request = Request(encoders, "7")
    arrived = Request.from_bytes(request.to_bytes())
    assert arrived.hash == request.hash
    assert list(arrived.encoders) == ["north", "south"]
    for name, (network, weights) in arrived.encoders.items():
        assert network == encoders[name].name
        assert torch.equal(weights["prototypes"], encoders[name].weights["prototypes"])
    answer = Description("south", {"joint_moments/cross": torch.ones(2)}, "7", request.hash)
    again = Description.from_bytes(answer.to_bytes())
    assert (again.site, again.task, again.request) == ("south", "7", request.hash)
    assert torch.equal(again.statistics["joint_moments/cross"], torch.ones(2))


def test_bytes_that_are_no_message_are_refused() -> None:
    task = make_setup("v4").task.to_bytes()
    for data in (b"", b"\x80\x04nonsense" * 9, task[: len(task) // 2], task):
        with pytest.raises(UserError, match="not a valid upload"):
            Upload.from_bytes(data)
    nameless = replace(an_upload(), trained={"encoder": torch.zeros(1)})
    with pytest.raises(UserError, match="without prototypes"):
        Upload.from_bytes(nameless.to_bytes())


READERS: dict[str, Callable[[bytes], object]] = {
    "task": Task.from_bytes,
    "upload": Upload.from_bytes,
    "request": Request.from_bytes,
    "description": Description.from_bytes,
    "start": Start.from_bytes,
}


@pytest.mark.parametrize("other", ["1", "2", "3", "4", "5", "7", "99"])
def test_a_message_of_another_format_is_refused_in_a_line_that_names_it(
    other: str, monkeypatch: pytest.MonkeyPatch, small_start: Path, tmp_path: Path
) -> None:
    """Two sites with unlike versions would add up numbers that mean different things."""
    start = read_start(small_start)
    assert start is not None
    messages = {
        "task": make_setup("v7").task,
        "upload": an_upload(),
        "request": Request({"north": an_upload().encoder}, "7"),
        "description": Description("north", {}, "7", "8"),
        "start": start,
    }
    monkeypatch.setattr(codec, "FORMAT", other)
    written = {kind: message.to_bytes() for kind, message in messages.items()}
    model = tmp_path / "model.safetensors"
    model.write_bytes(pack("model", {}, {}))
    monkeypatch.undo()
    for kind, data in written.items():
        line = f"this {kind} is of format {other}; this anchorfl reads format {FORMAT}"
        with pytest.raises(UserError, match=f"^{re.escape(line)}$"):
            READERS[kind](data)
    line = f"{model}: this model is of format {other}; this anchorfl reads format {FORMAT}"
    with pytest.raises(UserError, match=f"^{re.escape(line)}$"):
        FusedModel.load(model)


def test_messages_without_their_content_are_refused() -> None:
    tensors = {"class_counts": torch.zeros(2), "weights/prototypes": torch.zeros(2, 2)}
    content, whole = unpack("upload", an_upload().to_bytes())
    for key, why in (
        ("site", "needs a name"),
        ("samples", "another total"),
        ("telemetry", "not a list"),
    ):
        less = {name: value for name, value in content.items() if name != key}
        with pytest.raises(UserError, match=why):
            Upload.from_bytes(pack("upload", less, whole))
    with pytest.raises(UserError, match="contains no experiment"):
        Task.from_bytes(pack("task", {"facts": 3}, tensors))
