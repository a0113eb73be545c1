"""What travels: tasks and uploads, as bytes."""

import pytest
import torch

from anchorfl import tensors as tensors_module
from anchorfl.config import resolve
from anchorfl.errors import UserError
from anchorfl.task import Task
from anchorfl.tensors import FORMAT, pack
from anchorfl.upload import Upload
from tests.conftest import FACTS


def test_a_task_survives_the_journey_and_leaves_local_paths_behind() -> None:
    settings = {"train.lr": 0.3, "data.root": "/private/place", "device": "cpu", "out": "/private/out"}
    task = Task.prepare(resolve("v7", {**settings, "fusion": "softmax-mean"}), FACTS)
    data = task.to_bytes()
    assert b"/private" not in data
    arrived = Task.from_bytes(data)
    assert arrived.config.train == task.config.train
    assert arrived.config.align == task.config.align
    assert list(arrived.config.fusion) == ["softmax-mean"]
    assert arrived.facts == FACTS
    assert task.anchors is not None
    assert torch.equal(arrived.anchors, task.anchors)
    assert all(torch.equal(arrived.weights[name], task.weights[name]) for name in task.weights)
    arrived.network()


def test_a_method_without_alignment_sends_no_anchors() -> None:
    assert Task.from_bytes(Task.prepare(resolve("v4", {}), FACTS).to_bytes()).anchors is None


def test_an_upload_survives_the_journey() -> None:
    weights = {"prototypes": torch.randn(3, 2), "encoder.0.weight": torch.randn(4)}
    arrived = Upload.from_bytes(Upload(7, torch.tensor([5, 0, 2]), weights).to_bytes())
    assert (arrived.client, arrived.samples) == (7, 7)
    assert all(torch.equal(arrived.weights[name], weights[name]) for name in weights)


def test_bytes_that_are_no_message_are_refused() -> None:
    task = Task.prepare(resolve("v4", {}), FACTS).to_bytes()
    for data in (b"", b"\x80\x04nonsense" * 9, task[: len(task) // 2], task):
        with pytest.raises(UserError, match="not a valid upload"):
            Upload.from_bytes(data)
    nameless = Upload(0, torch.zeros(2), {"encoder": torch.zeros(1)}).to_bytes()
    with pytest.raises(UserError, match="no prototypes"):
        Upload.from_bytes(nameless)


def test_a_message_of_another_format_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two sites with unlike versions would add up numbers that mean different things."""
    upload = Upload(7, torch.tensor([5, 0]), {"prototypes": torch.randn(2, 2)})
    monkeypatch.setattr(tensors_module, "FORMAT", "3")
    data = upload.to_bytes()
    monkeypatch.undo()
    with pytest.raises(UserError, match=f"upload is of format 3; this anchorfl reads format {FORMAT}"):
        Upload.from_bytes(data)


def test_messages_without_their_content_are_refused() -> None:
    tensors = {"class_counts": torch.zeros(2), "weights/prototypes": torch.zeros(2, 2)}
    with pytest.raises(UserError, match="names no client"):
        Upload.from_bytes(pack("upload", {}, tensors))
    with pytest.raises(UserError, match="holds no experiment"):
        Task.from_bytes(pack("task", {"facts": 3}, tensors))
