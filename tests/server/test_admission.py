"""What a server admits: honest uploads all, malformed ones and lies never, each with its reason."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import torch

from anchorfl.data import Split, draw_partition, load_dataset
from anchorfl.describe import factored
from anchorfl.errors import UserError
from anchorfl.messages import Description, Request, Task, Upload
from anchorfl.nn import public_name
from anchorfl.prepare import Setup, new_task
from anchorfl.server import Refusal, Server
from anchorfl.settings import resolve
from anchorfl.site import Site, Trainer
from anchorfl.tensors import Tensors, prefixed
from tests.conftest import CPU
from tests.server.hostile import SUMS, all_cases, changed

FUSIONS = "sketch-guided,class-mean,zscore"


@dataclass(frozen=True)
class Round:
    """An experiment, its honest sites after a round, and what they upload."""

    setup: Setup
    sites: list[Site]
    uploads: list[bytes]

    def server(self, uploads: int = 0) -> Server:
        """With the first uploads admitted."""
        server = Server(self.setup, CPU)
        for data in self.uploads[:uploads]:
            assert server.receive(data) is None
        return server


def a_round(method: str = "v4", **words: object) -> Round:
    settings = {"train.rounds": 1, "fusion": FUSIONS, "seed": 2, "upload.min_count": 5, **words}
    config = resolve(method, settings)
    data = load_dataset(config.data)
    setup = Setup(new_task(config, data.facts, tuple(data.class_names)), config)
    partition = draw_partition(data.train.labels, config.partition, 0.0, data.name)
    arrived = Setup.of(Task.from_bytes(setup.task.to_bytes()))
    sites = []
    for number, own in enumerate(partition.clients):
        if len(own):
            trainer = Trainer(arrived, CPU, encoder=public_name(config.model.name_of(number)))
            split = Split(data.train.images[own], data.train.labels[own])
            sites.append(Site(trainer, split, str(number)))
    for site in sites:
        list(site.train())
    return Round(setup, sites, [site.upload().to_bytes() for site in sites])


def in_fewer_bits(data: bytes) -> bytes:
    """An upload as one from a start is: of some numbers' sums 16 bits, of most 8."""

    def change(content: dict[str, object], own: Tensors) -> None:
        sums = {key: own.pop(f"{SUMS}/{key}") for key in ("triangle", "cross")}
        own.update(prefixed(SUMS, factored(sums, "fp8", principal=500)))

    return changed(data, change)


@pytest.fixture(scope="module", params=[False, True])
def honest(request: pytest.FixtureRequest) -> Round:
    found = a_round()
    shorter = [in_fewer_bits(data) for data in found.uploads]
    return replace(found, uploads=shorter) if request.param else found


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
    found = a_round(method, **words)
    server = found.server(len(found.uploads))
    assert list(server.uploads) == [site.name for site in found.sites]
    assert server.refused == []


def test_what_is_malformed_or_a_lie_is_refused_with_the_right_reason(honest: Round) -> None:
    server = honest.server()
    wrong, count = [], 0
    for seed, data in enumerate(honest.uploads[:2]):
        for what, hostile, reason in all_cases(data, seed):
            found = server.receive(hostile)
            count += 1
            if not isinstance(found, Refusal) or not re.search(reason, found.reason):
                wrong.append(f"{what}: {found if isinstance(found, Refusal) else 'admitted'}")
    assert not wrong, "\n".join(wrong)
    assert not server.uploads
    assert len(server.refused) == count >= 300


def test_what_is_refused_is_left_out_and_counted(honest: Round) -> None:
    server = honest.server(3)
    refusal = server.receive(honest.uploads[3][:-5])
    assert list(server.uploads) == ["0", "1", "2"]
    assert server.refused == [refusal]
    assert "not a valid upload" in str(refusal)


def test_too_few_admitted_are_an_error_that_names_every_reason() -> None:
    found = a_round(**{"server.min_sites": 4})
    server = found.server(3)
    server.receive(found.uploads[3][:-5])
    server.receive(found.uploads[0])
    few = r"a valid upload; the upload of 0: .*; 3 of 5 uploads are admitted, .* server\.min_sites=4$"
    with pytest.raises(UserError, match=few):
        server.require_enough()
    assert server.receive(found.uploads[3]) is None
    server.require_enough()


def test_a_second_upload_of_a_site_is_refused(honest: Round) -> None:
    server = honest.server(len(honest.uploads))
    again = server.receive(honest.uploads[0])
    assert again is not None
    assert again.site == "0"
    assert "uploaded already" in again.reason
    assert len(server.uploads) == len(honest.uploads)


def test_counts_that_are_each_possible_may_be_too_many_together(honest: Round) -> None:
    """Two classes of two thirds of the most samples that a site may name."""
    server = honest.server()
    upload = Upload.from_bytes(honest.uploads[0])
    most = server.config.server.max_samples
    for each, refused in ((most // 2, False), (2 * most // 3, True)):
        counts = torch.zeros_like(upload.class_counts)
        counts[:2] = each
        refusal = server.receive(replace(upload, class_counts=counts).to_bytes())
        assert refusal is not None  # its sums are those of other counts
        assert ("more samples than server.max_samples" in refusal.reason) is refused


def answered(site: Site, request: Request) -> Description:
    """What a site sends to a request that came from elsewhere."""
    arrived = Request.from_bytes(request.to_bytes())
    answer = replace(site.describe(arrived), request=arrived.hash)
    return Description.from_bytes(answer.to_bytes())


@pytest.mark.parametrize("started", [False, True])
def test_a_description_is_held_to_the_same(started: bool, small_start: Path) -> None:
    words = {"model.weights": str(small_start)} if started else {}
    found = a_round(fusion="joint-sketch-ridge,sketch-lda", **words)
    request = found.server(5).request()
    assert request is not None
    answers = [answered(site, request) for site in found.sites]  # what lasts is not sent again
    server = found.server(5)
    server.receive_answers(answers)
    assert all(upload.contains("joint_sketch_moments") for upload in server.uploads.values())
    first, others = answers[0], answers[1:]
    for factor in (-1.0, 1000.0, float("nan")):
        worse = {
            name: value * factor if value.dtype == torch.float32 else value
            for name, value in first.statistics.items()
        }
        with pytest.raises(UserError, match="the answer of 0: joint sketch moments"):
            found.server(5).receive_answers([replace(first, statistics=worse), *others])
    more = {**first.statistics, **found.server(2).uploads["1"].statistics}
    with pytest.raises(UserError, match=r"the answer of 0: contains .* nobody asked for"):
        found.server(5).receive_answers([replace(first, statistics=more), *others])
    with pytest.raises(UserError, match="4 has not answered the second exchange"):
        found.server(5).receive_answers(answers[:4])
    with pytest.raises(UserError, match="answered the second exchange twice"):
        found.server(5).receive_answers([*answers, first])
    with pytest.raises(UserError, match="the answer of 0 is to another request"):
        found.server(4).receive_answers(answers[:4])
