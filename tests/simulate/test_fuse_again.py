"""Fusing a finished run again: the same figures, other rules, and the owner beside them."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from anchorfl import Experiment
from anchorfl.errors import UserError
from anchorfl.experiment import Result
from anchorfl.fusion import FUSIONS
from anchorfl.measures import Evaluation
from anchorfl.messages import Upload
from anchorfl.server import Server
from anchorfl.simulate import FusedAgain, fuse_again
from tests.conftest import CPU, command, make_setup


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Result:
    out = tmp_path_factory.mktemp("fuse") / "run"
    return Experiment("v4", train={"rounds": 2}, seed=1, device="cpu", out=out).run()


def test_fusing_again_gives_the_runs_own_figures_and_those_of_all_others(finished: Result) -> None:
    again = fuse_again(finished.run, {"device": "cpu"}, every=True)
    assert again.evaluation is not None
    found = again.evaluation.accuracy()
    assert set(found) | set(again.missing) == set(FUSIONS.names())
    assert set(again.missing) == {"joint-ridge", "joint-sketch-ridge", "zscore"}
    for name, accuracy in finished.accuracy.items():
        assert found[name] == pytest.approx(accuracy)


def test_other_fusions_and_options_can_be_asked_for(finished: Result) -> None:
    words = {"fusion": "class-mean", "fusion.class-mean.q": 0, "device": "cpu"}
    again = fuse_again(finished.run, words, every=False)
    assert again.evaluation is not None
    assert list(again.evaluation.fused) == ["class-mean"]
    assert again.model().card.fusion == "class-mean"


def test_the_command_prints_the_table_and_says_what_it_could_not_try(tmp_path: Path) -> None:
    words = ("fusion=feature-mean", "train.rounds=1", "out=run", "device=cpu")
    assert command("run", "v4", *words, cwd=tmp_path).returncode == 0
    done = command("fuse", "run", "--all", "device=cpu", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "owner (oracle)" in done.stdout
    assert "class-mean: not tried, these uploads contain no class means" in done.stdout
    refused = command("fuse", "run", "fusion=class-mean", cwd=tmp_path)
    assert refused.returncode == 2
    assert "these uploads contain no class means" in refused.stderr


@pytest.mark.parametrize("word", [{"model.name": "resnet18"}, {"seed": 5}, {"upload.min_count": 1}])
def test_what_clients_have_done_cannot_be_changed(finished: Result, word: dict[str, object]) -> None:
    with pytest.raises(UserError, match=r"fuse takes fusion|is of small-cnn, not of resnet18"):
        fuse_again(finished.run, {**word, "device": "cpu"}, every=False)


def test_errors_are_split_by_whose_class_was_named() -> None:
    """Site 0 owns classes 0 and 1, site 7 owns class 2; the owners are right but for one image."""
    labels = torch.tensor([0, 0, 1, 1, 2, 2])
    local = {"0": torch.tensor([0, 0, 1, 0, 0, 1]), "7": torch.tensor([2, 2, 2, 2, 2, 2])}
    scores = {"some": torch.eye(4)[torch.tensor([1, 2, 1, 0, 2, 0])]}
    server = Server(make_setup(), CPU)
    counts = {"0": [9, 5, 1, 4], "7": [1, 2, 6, 0]}
    server.hold(Upload(site, torch.tensor(own), {}) for site, own in counts.items())
    evaluation = Evaluation(labels, scores, local)
    found = FusedAgain(server, {}, {}, evaluation, {}, {})
    assert found.oracle(evaluation) == pytest.approx(5 / 6)
    assert found.gaps(evaluation, "some") == (pytest.approx(1 / 6), pytest.approx(2 / 6))
