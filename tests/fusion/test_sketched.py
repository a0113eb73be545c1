"""What a shared description of the images adds to clients that each know few classes."""

from pathlib import Path

import pytest
import torch

from anchorfl import Experiment
from anchorfl.data import load_dataset
from anchorfl.describe import second_moments, with_constant
from anchorfl.experiment import Result
from anchorfl.fusion.class_mean import owners
from anchorfl.fusion.sketched import GuidedHead, SketchGuided, behind_scores, told_apart
from anchorfl.messages import Upload
from anchorfl.tensors import prefixed
from tests.conftest import server_view

FUSIONS = "sketch-guided,sketch-lda,sketch-ridge,class-mean"


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Result:
    folder = tmp_path_factory.mktemp("sketched") / "run"
    settings = {"fusion": FUSIONS, "seed": 1, "device": "cpu"}
    return Experiment("v4", train={"rounds": 3}, out=folder, **settings).run()


def test_guidance_mends_what_clients_alone_confuse(result: Result) -> None:
    assert min(result.accuracy["sketch-ridge"], result.accuracy["sketch-lda"]) > 0.95
    assert result.accuracy["sketch-guided"] > result.accuracy["class-mean"] + 0.05


def test_its_predictor_gives_the_runs_answers_and_one_sample_the_same(result: Result) -> None:
    dataset = load_dataset(result.config.data)
    images = torch.from_numpy(dataset.test.images).float() / 255
    scores = result.predictor(images)
    right = float((scores.argmax(dim=1).numpy() == dataset.test.labels).mean())
    assert right == result.accuracy["sketch-guided"]
    torch.testing.assert_close(result.predictor(images[5:6])[0], scores[5], atol=1e-4, rtol=1e-4)


def test_a_guide_that_explains_more_beside_encoders_that_tell_less_weighs_more() -> None:
    """Of labels drawn at random nothing is explained; features that are alike tell no class."""
    view = server_view(filters=8)
    draw = torch.Generator().manual_seed(0)
    rows = with_constant(
        torch.rand(3000, view.describer()(torch.zeros(1, 1, 8, 8)).shape[1], generator=draw)
    )
    told = torch.eye(4)[rows[:, :4].argmax(dim=1)]
    noise = torch.eye(4)[torch.randint(4, (3000,), generator=draw)]

    def weight(classes: torch.Tensor, means: torch.Tensor) -> float:
        statistics = {
            **prefixed("sketch_moments", second_moments(rows, classes)),
            "class_means/mean": means,
        }
        counts = classes.sum(dim=0).long()
        upload = Upload("0", counts, {"prototypes": torch.eye(4)}, statistics)
        head = SketchGuided().head([upload], [], view)
        assert isinstance(head, GuidedHead)
        return head.weight

    apart, alike = torch.eye(4), torch.tensor([0.8, 0.1, 0.0, 0.0]) + torch.eye(4) / 10
    assert weight(noise, apart) < 0.01
    assert weight(told, apart) > 0.15
    assert weight(told, alike) > 10 * weight(told, apart)


def test_a_guide_weighs_more_the_less_the_encoders_have_seen() -> None:
    """m = guidance (1 + 1000 / n) / (1 - R^2)^2, at most 1; 0 where nothing is explained."""
    rule = SketchGuided(guidance=0.05)
    assert rule.most(0.5, 1000) == pytest.approx(0.05 * 2 / 0.25)
    assert rule.most(0.5, 1e9) == pytest.approx(0.05 / 0.25)
    assert rule.most(0.9, 1000) == rule.most(0.5, 10) == 1.0
    assert rule.most(0.0, 10) == 0.0


def of_means(site: str, counts: list[int], means: torch.Tensor) -> Upload:
    statistics = {"class_means/mean": means}
    return Upload(site, torch.tensor(counts), {"prototypes": torch.eye(2)}, statistics)


def test_the_samples_behind_a_score_are_those_of_its_owners() -> None:
    """Two clients share class 0 as 30 and 10, one has all 60 of class 1: 25 and 60."""
    uploads = [
        of_means("0", [30, 60], torch.eye(2)),
        of_means("1", [10, 0], torch.tensor([[1.0, 0.0], [0.0, 0.0]])),
    ]
    own = owners(uploads, 1.0, torch.device("cpu"))
    counts = torch.tensor([[30.0, 60.0], [10.0, 0.0]])
    assert behind_scores(own, counts, counts) == pytest.approx((25 * 40 + 60 * 60) / 100)


def test_what_encoders_tell_apart_follows_from_their_class_means() -> None:
    """Against the variance of the features themselves, between and in all; one class tells nothing."""
    draw = torch.Generator().manual_seed(0)
    centres = torch.tensor([[3.0, 0.0, 0.0], [0.0, 2.0, 0.0]])
    labels = torch.tensor([0] * 30 + [1] * 10)
    features = centres[labels] + torch.randn(40, 3, generator=draw)
    features = torch.nn.functional.normalize(features, dim=1)
    means = torch.stack([features[labels == c].mean(dim=0) for c in (0, 1)])
    between, whole = (x.var(dim=0, correction=0).sum() for x in (means[labels], features))
    single = torch.tensor([[0.9, 0.1, 0.0], [0.0, 0.0, 0.0]])
    shares = told_apart([of_means("0", [30, 10], means), of_means("1", [20, 3], single)])
    torch.testing.assert_close(shares, torch.stack([between / whole, torch.tensor(0.0)]))


def test_without_guidance_it_is_class_mean(tmp_path: Path) -> None:
    settings = {"seed": 11, "device": "cpu", "fusion.sketch-guided.guidance": 0}
    weighed = {
        "fusion.class-mean.q": 1,
        "fusion.class-mean.border": 0,
        "fusion": "sketch-guided,class-mean",
    }
    run = Experiment("v4", train={"rounds": 1}, out=tmp_path / "run", **settings, **weighed).run()
    assert run.accuracy["sketch-guided"] == run.accuracy["class-mean"]


def test_moments_of_a_sketch_are_counted_in_the_upload(result: Result) -> None:
    width = 2 * 32 * 9 + 1
    moments = 4 * (width * (width + 1) // 2 + width * 10)
    assert all(size > moments for size in result.summary.upload_bytes)
    assert result.summary.exchange_bytes is None
