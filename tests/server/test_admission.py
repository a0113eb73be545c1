"""What a server admits: honest uploads all, malformed ones and lies never, each with its reason."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import torch

from anchorfl.data import draw_partition, load_dataset
from anchorfl.data.dataset import Split
from anchorfl.describe import factored
from anchorfl.errors import UserError
from anchorfl.server import Refusal, Server
from anchorfl.settings import resolve
from anchorfl.site import Site
from anchorfl.tensors import Tensors, prefixed
from anchorfl.wire import Task
from tests.conftest import CPU
from tests.server.hostile import SUMS, all_cases, changed

FUSIONS = "sketch-guided,class-mean,zscore"


def a_round(method: str = "v4", **words: object) -> tuple[Server, list[bytes]]:
    """A server, and the uploads of five honest sites after a round."""
    settings = {"train.rounds": 1, "fusion": FUSIONS, "seed": 2, "upload.min_count": 5, **words}
    config = resolve(method, settings)
    data = load_dataset(config.data)
    task = Task.prepare(config, data.facts, tuple(data.class_names))
    partition = draw_partition(data.train.labels, config.partition, 0.0, data.name)
    uploads = []
    for number, own in enumerate(partition.clients):
        if len(own):
            site = Site(number, Split(data.train.images[own], data.train.labels[own]), CPU)
            site.receive(task.to_bytes())
            site.train(0)
            uploads.append(site.upload())
    return Server(task, CPU), uploads


def in_fewer_bits(data: bytes) -> bytes:
    """An upload as one from a start is: of some numbers' sums 16 bits, of most 8."""

    def change(content: dict[str, object], own: Tensors) -> None:
        sums = {key: own.pop(f"{SUMS}/{key}") for key in ("triangle", "cross")}
        own.update(prefixed(SUMS, factored(sums, "fp8", principal=500)))

    return changed(data, change)


@pytest.fixture(scope="module", params=[False, True])
def honest(request: pytest.FixtureRequest) -> tuple[Server, list[bytes]]:
    server, uploads = a_round()
    return server, [in_fewer_bits(data) for data in uploads] if request.param else uploads


@pytest.mark.parametrize(
    ("method", "words"),
    [
        ("v4", {}),
        ("v4", {"partition.alpha": 100.0, "seed": 5}),
        ("v4", {"model.name": "small-cnn,resnet18", "fusion": "class-mean", "partition.clients": 3}),
        ("v4", {"model.freeze": True, "fusion": "class-mean"}),
        ("none", {"fusion": "sketch-ridge"}),
        ("none", {"fusion": "sketch-ridge", "describe.sums": "fp8"}),
        ("v4", {"describe.sums": "fp16", "partition.clients": 12}),
        ("v12-gamma", {"upload.min_count": 1, "fusion": "feature-mean"}),
    ],
)
def test_honest_uploads_are_admitted(method: str, words: dict[str, object]) -> None:
    server, uploads = a_round(method, **words)
    assert len(server.receive(uploads)) == len(uploads)
    assert server.refused == []


def test_what_is_malformed_or_a_lie_is_refused_with_the_right_reason(
    honest: tuple[Server, list[bytes]],
) -> None:
    server, uploads = honest
    wrong, count = [], 0
    for seed, data in enumerate(uploads[:2]):
        for what, hostile, reason in all_cases(data, seed):
            found = server.admission.admit(hostile, server.task.hash)
            count += 1
            if not isinstance(found, Refusal) or not re.search(reason, found.reason):
                wrong.append(f"{what}: {found if isinstance(found, Refusal) else 'admitted'}")
    assert not wrong, "\n".join(wrong)
    assert count >= 300


def test_what_is_refused_is_left_out_and_counted(honest: tuple[Server, list[bytes]]) -> None:
    server, uploads = honest
    admitted = server.receive([*uploads[:3], uploads[3][:-5]])
    assert [upload.client for upload in admitted] == [0, 1, 2]
    assert "not a valid upload" in str(server.refused[0])


def test_too_few_admitted_are_an_error_that_names_every_reason() -> None:
    server, uploads = a_round(**{"server.min_sites": 4})
    with pytest.raises(UserError, match=r"3 of 4 uploads are admitted, .* server\.min_sites=4; the"):
        server.receive([*uploads[:3], uploads[3][:-5]])


def test_a_second_upload_of_a_site_is_refused_or_replaces_the_first(
    honest: tuple[Server, list[bytes]],
) -> None:
    server, uploads = honest
    assert len(server.receive([*uploads, uploads[0]])) == len(uploads)
    assert "uploaded already" in server.refused[0].reason
    assert len(server.receive([*uploads, uploads[0]], replace_earlier=True)) == len(uploads)
    assert server.refused == []


@pytest.mark.parametrize("started", [False, True])
def test_a_description_is_held_to_the_same(started: bool, small_start: Path) -> None:
    words = {"model.weights": str(small_start)} if started else {}
    server, uploads = a_round(fusion="joint-sketch-ridge,sketch-lda", **words)
    admitted = server.receive(uploads)
    request = server.request(admitted)
    assert request is not None
    config = server.config
    data = load_dataset(config.data)
    partition = draw_partition(data.train.labels, config.partition, 0.0, data.name)
    answers = []
    for upload in admitted:
        own = np.asarray(partition.clients[upload.client])
        site = Site(upload.client, Split(data.train.images[own], data.train.labels[own]), CPU)
        site.receive(server.task.to_bytes())
        site.upload()  # what lasts of it is not sent again
        answers.append(site.client.describe(request))  # type: ignore[union-attr]
    assert len(server.receive_descriptions(admitted, [each.to_bytes() for each in answers])) == 5
    for factor in (-1.0, 1000.0, float("nan")):
        worse = {
            name: value * factor if value.dtype == torch.float32 else value
            for name, value in answers[0].statistics.items()
        }
        lie = type(answers[0])(answers[0].client, worse, answers[0].task)
        with pytest.raises(UserError, match="the description of site 0: joint sketch moments"):
            server.receive_descriptions(admitted, [each.to_bytes() for each in (lie, *answers[1:])])
    other = {name: value.clone() for name, value in admitted[1].statistics.items()}
    more = type(answers[0])(answers[0].client, {**answers[0].statistics, **other}, answers[0].task)
    with pytest.raises(UserError, match=r"site 0: contains .* nobody asked for"):
        server.receive_descriptions(admitted, [each.to_bytes() for each in (more, *answers[1:])])
    with pytest.raises(UserError, match="site 4 has not answered"):
        server.receive_descriptions(admitted, [each.to_bytes() for each in answers[:4]])
