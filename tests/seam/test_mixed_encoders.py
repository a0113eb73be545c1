"""Sites with different encoders in one federation, and what cannot be done with them."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from anchorfl import Experiment, load_run
from anchorfl.data import load_dataset
from anchorfl.errors import UserError
from anchorfl.fusion import FUSIONS
from anchorfl.model import FusedModel, export
from anchorfl.simulate import fuse_again
from tests.conftest import command

ABLE = [name for name in FUSIONS.names() if FUSIONS.get(name).mixes]
WIDE = """
from torch import nn

def wide(shape):
    return nn.Sequential(nn.Flatten(), nn.Linear(shape[0] * shape[1] * shape[2], 40), nn.ReLU())
"""


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Networks of 128 and of 512 features."""
    folder = tmp_path_factory.mktemp("mixed") / "run"
    Experiment(
        "v7",
        model={"name": "small-cnn,resnet18"},
        train={"rounds": 1, "batch_size": 64},
        partition={"alpha": 1.0, "clients": 3},
        fusion=",".join(ABLE),
        seed=1,
        out=folder,
    ).run()
    return folder


def test_clients_get_them_in_turn_and_uploads_name_them(mixed: Path) -> None:
    result = load_run(mixed)
    assert set(result.accuracy) == set(ABLE)
    sizes = result.summary.upload_bytes
    assert sizes[0] is not None
    assert sizes[1] is not None
    assert sizes[1] > 5 * sizes[0]
    assert all(value > 0.3 for value in result.accuracy.values())


@pytest.mark.parametrize("fusion", ABLE)
def test_every_rule_that_allows_it_exports_and_loads_again(
    fusion: str, mixed: Path, tmp_path: Path
) -> None:
    found = command("fuse", str(mixed), f"fusion={fusion}", "device=cpu", cwd=tmp_path)
    assert found.returncode == 0, found.stderr
    result = load_run(mixed)
    dataset = load_dataset(result.config.data)
    images = torch.from_numpy(dataset.test.images[:64]).float() / 255
    predictor = one_rule(mixed, fusion)
    export(predictor, tmp_path / "model.safetensors")
    again = FusedModel.load(tmp_path / "model.safetensors")
    torch.testing.assert_close(again(images), predictor(images))
    if fusion == "sketch-guided":
        check_onnx(predictor, images, tmp_path / "model.onnx")


def one_rule(folder: Path, fusion: str) -> FusedModel:
    """The model that another of the run's rules makes."""
    return fuse_again(load_run(folder).run, {"fusion": fusion, "device": "cpu"}, every=False).model()


def check_onnx(predictor: torch.nn.Module, images: torch.Tensor, path: Path) -> None:
    runtime = pytest.importorskip("onnxruntime")
    export(predictor, path)
    session = runtime.InferenceSession(str(path))
    (scores,) = session.run(None, {"images": images.numpy()})
    torch.testing.assert_close(torch.from_numpy(scores), predictor(images), atol=1e-4, rtol=1e-3)


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["v4", "fusion=feature-mean"], "feature-mean adds features or weights of all clients"),
        (["v4", "fusion=class-mean,zscore"], "zscore adds features or weights of all clients"),
        (["fedavg"], "sends one model or one set of means to all"),
        (["v6"], "has one bank for all"),
        (["v4", "model.weights=x.safetensors"], "model.weights=x.safetensors: No such file"),
    ],
)
def test_what_would_mix_weights_or_widths_is_refused_before_training(
    words: list[str], reason: str, tmp_path: Path
) -> None:
    done = command("run", *words, "model.name=small-cnn,resnet18", "out=run", cwd=tmp_path)
    assert done.returncode == 2
    assert reason in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "run").exists()


def test_without_a_fusion_named_the_default_leaves_out_what_cannot_mix(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(WIDE)
    words = [f"model.name=small-cnn,{tmp_path}/own.py:wide", "train.rounds=1", "out=run"]
    done = command("run", "v4", *words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert set(load_run(tmp_path / "run").accuracy) == {"sketch-guided", "class-mean"}


def test_an_unknown_one_of_several_is_named() -> None:
    with pytest.raises(UserError, match=r"model\.name=small-cn: unknown model; did you mean small-cnn"):
        Experiment("v4", model={"name": "small-cnn,small-cn"}, train={"rounds": 1}).run()
