"""What travels: tasks and uploads, as bytes."""

import pytest
import torch

from anchorfl.describe import factored, in_full, second_moments, with_constant
from anchorfl.errors import UserError
from anchorfl.settings import resolve
from anchorfl.tensors import prefixed
from anchorfl.wire import FORMAT, Task, Upload, codec, pack, unpack
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
    assert task.target is not None
    assert arrived.target is not None
    assert torch.equal(arrived.target, task.target)
    assert all(torch.equal(arrived.weights[name], task.weights[name]) for name in task.weights)
    arrived.network()


def test_a_method_without_alignment_sends_no_target() -> None:
    assert Task.from_bytes(Task.prepare(resolve("v4", {}), FACTS).to_bytes()).target is None


def test_a_task_from_before_crop_and_zoom_means_what_it_meant() -> None:
    content, tensors = unpack(
        "task", Task.prepare(resolve("v4", {"data.name": "svhn"}), FACTS).to_bytes()
    )
    today = Task.from_bytes(pack("task", content, tensors)).config
    assert (today.data.crop, today.model.zoom) == (0.5, 0.8)
    for key in ("data.crop", "model.zoom"):
        del content["config"][key]
    config = Task.from_bytes(pack("task", content, tensors)).config
    assert (config.data.crop, config.model.zoom) == (0.2, 1.0)


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
    with pytest.raises(UserError, match="without prototypes"):
        Upload.from_bytes(nameless)


def test_a_message_of_another_format_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two sites with unlike versions would add up numbers that mean different things."""
    upload = Upload(7, torch.tensor([5, 0]), {"prototypes": torch.randn(2, 2)})
    monkeypatch.setattr(codec, "FORMAT", "99")
    data = upload.to_bytes()
    monkeypatch.undo()
    with pytest.raises(
        UserError, match=f"upload is of format 99; this anchorfl reads formats 2, 3, 4, {FORMAT}"
    ):
        Upload.from_bytes(data)


def test_messages_of_the_format_before_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Format 2 wrote `told` for statistics, and `anchors` or `bank` for the target."""
    monkeypatch.setattr(codec, "FORMAT", "2")
    counts, prototypes = torch.tensor([5, 0]), torch.randn(2, 2)
    tensors = {"class_counts": counts, "weights/prototypes": prototypes}
    old = pack("upload", {"client": 7}, {**tensors, "told/class_means/mean": torch.ones(2, 2)})
    task = Task.prepare(resolve("v7", {}), FACTS)
    sent, weights = codec.unpack("task", task.to_bytes())
    weights["anchors"] = weights.pop("target")
    old_task = pack("task", sent, weights)
    monkeypatch.undo()
    upload = Upload.from_bytes(old)
    assert torch.equal(upload.prototypes, prototypes)
    assert torch.equal(upload.statistic("class_means")["mean"], torch.ones(2, 2))
    target = Task.from_bytes(old_task).target
    assert target is not None
    assert task.target is not None
    assert torch.equal(target, task.target)


def test_sums_in_16_bits_of_the_format_before_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Format 3 wrote shares of the largest, and what one is worth."""
    monkeypatch.setattr(codec, "FORMAT", "3")
    sums = {"triangle": torch.rand(6), "cross": torch.rand(3, 2)}
    halves = {f"statistics/sketch_moments/{name}": (64 * value).half() for name, value in sums.items()}
    halves["statistics/sketch_moments/scale"] = torch.tensor(1 / 64)
    tensors = {"class_counts": torch.tensor([5, 0]), "statistics/class_means/mean": torch.ones(2, 2)}
    old = pack("upload", {"client": 7}, {**tensors, **halves})
    monkeypatch.undo()
    upload = Upload.from_bytes(old)
    for name, value in upload.statistic("sketch_moments").items():
        torch.testing.assert_close(value, sums[name], rtol=1e-3, atol=0)
    assert upload.statistic("class_means")["mean"].dtype == torch.float32


@pytest.mark.parametrize("precision", ["fp16", "fp8"])
def test_a_factor_of_the_format_before_is_read(precision: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Format 4 wrote one factor, in 16 bits or in 8."""
    sums = second_moments(with_constant(torch.rand(30, 5)), torch.eye(2)[torch.arange(30) % 2])
    short = factored(sums, precision, principal=5)
    parts = [short.pop("factor16"), short.pop("factor8")]
    (short["factor"],) = [part for part in parts if len(part)]
    monkeypatch.setattr(codec, "FORMAT", "4")
    tensors = {"class_counts": torch.tensor([15, 15]), **prefixed("statistics/sketch_moments", short)}
    old = pack("upload", {"client": 7}, tensors)
    monkeypatch.undo()
    again = Upload.from_bytes(old).statistic("sketch_moments")
    wanted = in_full(factored(sums, precision, principal=5))
    for name, value in again.items():
        torch.testing.assert_close(value, wanted[name])


def test_messages_without_their_content_are_refused() -> None:
    tensors = {"class_counts": torch.zeros(2), "weights/prototypes": torch.zeros(2, 2)}
    with pytest.raises(UserError, match="names no client"):
        Upload.from_bytes(pack("upload", {}, tensors))
    with pytest.raises(UserError, match="contains no experiment"):
        Task.from_bytes(pack("task", {"facts": 3}, tensors))
