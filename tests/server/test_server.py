"""Sites train alone, a server fuses what they upload, and the model is a file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from anchorfl.config import DataOptions
from anchorfl.data import Dataset, Split, load_dataset
from anchorfl.errors import UserError
from anchorfl.messages import Task, Upload
from anchorfl.model import FusedModel
from anchorfl.prepare import new_task
from anchorfl.server import Server
from anchorfl.settings import resolve
from anchorfl.site import Site


@pytest.fixture(scope="module")
def digits() -> Dataset:
    return load_dataset(DataOptions())


@pytest.fixture(scope="module")
def task(digits: Dataset) -> Task:
    config = resolve("v4", {"train.rounds": 3, "partition.clients": 2})
    return new_task(config, digits.facts, tuple(digits.class_names))


def halves(digits: Dataset) -> Iterator[tuple[str, Split]]:
    """The images of the even digits at one site, of the odd ones at the other."""
    for name, rest in (("north", 0), ("south", 1)):
        own = np.flatnonzero(digits.train.labels % 2 == rest)
        yield name, Split(digits.train.images[own], digits.train.labels[own])


@pytest.fixture(scope="module")
def uploads(digits: Dataset, task: Task) -> list[Upload]:
    found = []
    for name, split in halves(digits):
        site = Site(task, split, name=name)
        list(site.train())
        found.append(site.upload())
    return found


def test_sites_train_upload_and_are_fused_into_a_model_that_is_a_file(
    digits: Dataset, task: Task, tmp_path: Path
) -> None:
    server = Server(task)
    for name, split in halves(digits):
        site = Site(task, split, name=name)
        assert [event.round for event in site.train()] == [0, 1, 2]
        assert server.receive(site.upload()) is None
    model = server.fuse()
    model.save(tmp_path / "model.safetensors")
    again = FusedModel.load(tmp_path / "model.safetensors")
    images = torch.from_numpy(digits.test.images).float() / 255
    assert torch.equal(again(images), model(images))
    assert again.card == model.card
    assert again.class_names == digits.class_names
    right = (again(images).argmax(dim=1).numpy() == digits.test.labels).mean()
    assert right > 0.9  # a site alone knows half of the digits


def test_bytes_in_any_order_give_the_model_that_values_give(
    digits: Dataset, task: Task, uploads: list[Upload]
) -> None:
    images = torch.from_numpy(digits.test.images[:50]).float() / 255
    scores = []
    for server, messages in (
        (Server(task), uploads),
        (Server(Task.from_bytes(task.to_bytes())), [each.to_bytes() for each in uploads[::-1]]),
    ):
        assert [server.receive(message) for message in messages] == [None, None]
        assert list(server.uploads) == ["north", "south"]
        scores.append(server.fuse()(images))
    torch.testing.assert_close(*scores)


def test_an_answer_to_another_task_is_refused_under_its_sites_name(
    digits: Dataset, uploads: list[Upload]
) -> None:
    config = resolve("v4", {"train.rounds": 4, "partition.clients": 2})
    server = Server(new_task(config, digits.facts, tuple(digits.class_names)))
    refusal = server.receive(uploads[1])
    assert str(refusal) == "the upload of south: answers another task"
    assert (server.uploads, server.refused) == ({}, [refusal])
    with pytest.raises(UserError, match=r"^the upload of south: .*; 0 of 1 uploads are admitted"):
        server.require_enough()


def test_a_one_shot_method_asks_for_nothing_more(task: Task, uploads: list[Upload]) -> None:
    server = Server(task)
    server.hold(uploads)
    assert server.request() is None
    assert server.next_task() is None
