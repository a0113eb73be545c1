"""Every run leaves its model in a file: what works with a model needs no upload."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from anchorfl import Experiment, load_run
from anchorfl.model import FusedModel
from anchorfl.simulate import data_of
from tests.conftest import command


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run, a picture, and a model that was exported."""
    home = tmp_path_factory.mktemp("saved")
    words = ("align.gamma=0.1", "train.rounds=2", "device=cpu", "out=run")
    done = command("run", "v12-gamma", *words, cwd=home)
    assert done.returncode == 0, done.stderr
    Image.fromarray(np.zeros((8, 8), np.uint8)).save(home / "black.png")
    return home


@pytest.fixture
def home(finished: Path, tmp_path: Path) -> Path:
    """The same, without its uploads."""
    shutil.copytree(finished, tmp_path / "home")
    shutil.rmtree(tmp_path / "home" / "run" / "uploads")
    return tmp_path / "home"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("predict", "run", "black.png"), "black.png: "),
        (("predict", "run/model.safetensors", "black.png", "--csv", "p.csv"), "black.png: "),
        (("evaluate", "run", "--data", "digits"), "accuracy"),
        (("export", "run", "copy.safetensors"), "model: copy.safetensors"),
        (("distill", "run", "--steps", "2"), "student: run/student.safetensors"),
        (("report", "run", "--figures", "figures"), "report: run/report.html"),
        (("compare", "run", "--table", "c.md"), "v12-gamma"),
        (("diagnose", "run"), "\n"),
        (("forecast", "run"), "lambda"),
    ],
    ids=lambda words: words[0] if isinstance(words, tuple) else "",
)
def test_every_command_but_fuse_works_without_uploads(
    home: Path, words: tuple[str, ...], said: str
) -> None:
    done = command(*words, cwd=home)
    assert (done.returncode, done.stderr) == (0, "")
    assert said in done.stdout


@pytest.mark.parametrize(
    "words",
    [
        ("predict", "run", "black.png", "--top", "10"),
        ("evaluate", "run", "--data", "digits"),
        ("compare", "run"),
        ("diagnose", "run"),
        ("forecast", "run"),
    ],
    ids=lambda words: words[0],
)
def test_what_is_said_is_the_same_with_and_without_uploads(
    home: Path, finished: Path, words: tuple[str, ...]
) -> None:
    without, whole = command(*words, cwd=home), command(*words, cwd=finished)
    assert whole.stdout
    assert without.stdout == whole.stdout


def test_the_model_is_named_by_its_file(home: Path, finished: Path) -> None:
    model = load_run(home / "run").predictor
    assert model.hash == load_run(finished / "run").predictor.hash
    assert model.hash == FusedModel.load(home / "run" / "model.safetensors").hash


def test_fusing_again_says_what_is_missing(home: Path) -> None:
    done = command("fuse", "run", cwd=home)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "client-000.safetensors: missing or incomplete" in done.stderr


@pytest.mark.parametrize(
    ("method", "settings"),
    [
        ("v4", {}),
        ("v4", {"fusion": "class-mean,feature-mean", "data": {"validation": 0.2}}),
        ("v7", {"fusion": "iffi"}),
        ("v4", {"fusion": "zscore"}),
        ("v4", {"model": {"name": "small-cnn,resnet18"}, "train": {"rounds": 1}}),
        ("fedavg", {}),
        ("none", {}),
    ],
    ids=["usual", "class-mean", "iffi", "two exchanges", "mixed", "fedavg", "none"],
)
def test_the_saved_model_is_as_right_as_the_run_recorded(
    method: str, settings: dict[str, object], tmp_path: Path
) -> None:
    experiment = Experiment(
        method, **{"train": {"rounds": 2}, "device": "cpu", **settings}, seed=1, out=tmp_path / "run"
    )
    run = experiment.run().run
    primary, recorded = next(iter((run.summary.final_accuracy or {}).items()))
    model, test = FusedModel.load(run.files.model), data_of(run).test
    predicted = model(torch.from_numpy(test.images).float() / 255).argmax(dim=1)
    assert float((predicted.numpy() == test.labels).mean()) == pytest.approx(recorded, abs=1e-9)
    assert (model.card.fusion, model.card.method) == (primary, method)
    assert model.card.temperature == (run.summary.temperature or {})[primary]


def test_a_run_that_saves_no_model_says_how_to_make_it(finished: Path, tmp_path: Path) -> None:
    words = ("align.gamma=0.1", "train.rounds=2", "device=cpu", "out=run", "model=off")
    assert command("run", "v12-gamma", *words, cwd=tmp_path).returncode == 0
    assert not (tmp_path / "run" / "model.safetensors").exists()
    shutil.copy(finished / "black.png", tmp_path)
    predict = ("predict", "run", "black.png")
    done = command(*predict, cwd=tmp_path)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    making = "anchorfl fuse run --export run/model.safetensors"
    assert making in done.stderr
    made = command(*making.split()[1:], "device=cpu", cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    assert command(*predict, cwd=tmp_path).stdout == command(*predict, cwd=finished).stdout
    both = [folder / "run" / "model.safetensors" for folder in (finished, tmp_path)]
    assert both[0].read_bytes() == both[1].read_bytes()


def test_a_model_for_onnx_without_the_extra_is_named_as_the_user_named_it(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    done = command("export", "run", "model.onnx", cwd=home)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "error: model.onnx: ONNX needs the extra: pip install 'anchorfl[onnx]'\n"
    assert not list(home.glob("*.onnx*")) + list(home.glob(".model*"))
