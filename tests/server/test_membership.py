"""A site that left was never there, and one that came late was there in time."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from anchorfl import Experiment
from anchorfl.config import DataOptions, PartitionOptions
from anchorfl.data import draw_partition, load_dataset
from anchorfl.errors import UserError
from anchorfl.messages import Upload
from anchorfl.model import FusedModel
from anchorfl.runs import read_run
from anchorfl.simulate import fuse_again
from tests.conftest import command

ONE = "sketch-lda,sketch-ridge,sketch-guided,class-mean"
TWO = "joint-sketch-ridge,joint-ridge"
GONE = "2"


def run(folder: Path, fusion: str, without: str | None = None, start: Path | None = None) -> Path:
    dataset = load_dataset(DataOptions())
    options = PartitionOptions(alpha=1.0, clients=4, seed=1)
    drawn = draw_partition(dataset.train.labels, options, 0.0, dataset.name)
    clients = [
        own if str(number) != without else np.empty(0, dtype=np.int64)
        for number, own in enumerate(drawn.clients)
    ]
    place = folder.with_suffix(".json")
    replace(drawn, clients=clients).save(place, dataset.name, dataset.train.labels)
    words = {"train.rounds": 1, "fusion": fusion, "seed": 1, "threads": 1}
    words |= {"partition.file": str(place)} | ({"model.weights": str(start)} if start else {})
    Experiment("v4", **words, out=folder).run()
    return folder


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, small_start: Path) -> dict[str, Path]:
    place = tmp_path_factory.mktemp("membership")
    return {
        "all": run(place / "all", ONE),
        "fewer": run(place / "fewer", ONE, GONE),
        "all, short": run(place / "all-short", ONE, start=small_start),
        "fewer, short": run(place / "fewer-short", ONE, GONE, small_start),
        "all, two": run(place / "all-two", f"{TWO},sketch-ridge"),
        "fewer, two": run(place / "fewer-two", f"{TWO},sketch-ridge", GONE),
    }


@pytest.mark.parametrize("kind", ["", ", short", ", two"])
def test_a_site_that_left_was_never_there(runs: dict[str, Path], kind: str) -> None:
    left = fuse_again(read_run(runs[f"all{kind}"]), {}, every=False, gone=[GONE])
    never = fuse_again(read_run(runs[f"fewer{kind}"]), {}, every=False)
    stayed = fuse_again(read_run(runs[f"all{kind}"]), {}, every=False)
    assert set(left.evaluation.scores) == set(never.evaluation.scores)
    for name, scores in left.evaluation.scores.items():
        torch.testing.assert_close(scores, never.evaluation.scores[name], atol=1e-6, rtol=0)
        assert not torch.allclose(scores, stayed.evaluation.scores[name], atol=1e-3)


@pytest.mark.parametrize("kind", ["", ", short"])
def test_an_upload_that_came_late_was_there_in_time(runs: dict[str, Path], kind: str) -> None:
    file = runs[f"all{kind}"] / "uploads" / "client-002.safetensors"
    late = fuse_again(read_run(runs[f"fewer{kind}"]), {}, every=False, late=[file])
    in_time = fuse_again(read_run(runs[f"all{kind}"]), {}, every=False)
    for name, scores in late.evaluation.scores.items():
        torch.testing.assert_close(scores, in_time.evaluation.scores[name], atol=1e-6, rtol=0)


def test_who_leaves_after_two_exchanges_in_few_bits_was_hardly_there(
    tmp_path: Path, small_start: Path
) -> None:
    """What remains was rounded with the leaving encoder's numbers in it."""
    every, fewer = (run(tmp_path / str(gone), TWO, gone, small_start) for gone in (None, GONE))
    left = fuse_again(read_run(every), {}, every=False, gone=[GONE])
    never = fuse_again(read_run(fewer), {}, every=False)
    for name, scores in left.evaluation.scores.items():
        agree = scores.argmax(dim=1) == never.evaluation.scores[name].argmax(dim=1)
        assert agree.double().mean() > 0.98


def test_a_late_upload_is_held_to_what_all_are(runs: dict[str, Path]) -> None:
    file = runs["all"] / "uploads" / "client-002.safetensors"
    with pytest.raises(UserError, match="uploaded already"):
        fuse_again(read_run(runs["all"]), {}, every=False, late=[file])
    other = file.with_name("other.safetensors")
    other.write_bytes(replace(Upload.from_bytes(file.read_bytes()), task="0").to_bytes())
    with pytest.raises(UserError, match="answers another task"):
        fuse_again(read_run(runs["fewer"]), {}, every=False, late=[other])


def test_the_command_writes_the_predictor_of_those_who_stayed(
    runs: dict[str, Path], tmp_path: Path
) -> None:
    words = ("fuse", str(runs["all"]), "--without", GONE, "--export", "model.safetensors")
    done = command(*words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    images = torch.rand(5, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    never = FusedModel.load(read_run(runs["fewer"]).files.model)
    torch.testing.assert_close(FusedModel.load(tmp_path / "model.safetensors")(images), never(images))
    for wrong in ("7", "north"):
        refused = command("fuse", str(runs["all"]), "--without", wrong, cwd=tmp_path)
        assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
        assert f"--without {wrong}: there are uploads of 0, 1, 2, 3" in refused.stderr
