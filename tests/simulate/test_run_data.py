"""Data found again for a finished run: the run's own, moved or not, and never others."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from safetensors.torch import save_file

from anchorfl import Experiment
from anchorfl.experiment import Result
from anchorfl.nn import build_encoder
from tests.conftest import command


def write_pictures(root: Path, classes: int = 3, each: int = 10) -> Path:
    """Bright to the left, in the middle or to the right."""
    draw = np.random.default_rng(0)
    for label in range(classes):
        (root / f"class{label}").mkdir(parents=True)
        for number in range(each):
            image = draw.integers(0, 60, (8, 12), dtype=np.uint8)
            image[:, 4 * label : 4 * label + 4] += 180
            Image.fromarray(image).save(root / f"class{label}" / f"{number}.png")
    return root


@pytest.fixture
def result(tmp_path: Path) -> Result:
    root = write_pictures(tmp_path / "pictures")
    data = {"name": "folder", "root": root, "size": 8}
    settings = {
        "data": data,
        "partition": {"kind": "iid", "clients": 2},
        "model": {"name": "small-cnn"},
    }
    train = {"rounds": 2, "batch_size": 8}
    return Experiment("v4", train=train, out=tmp_path / "run", device="cpu", **settings).run()


def test_moved_data_are_found_by_their_key(result: Result, tmp_path: Path) -> None:
    (tmp_path / "pictures").rename(tmp_path / "moved")
    for name in ("fuse", "distill"):
        lost = command(name, str(result.folder), cwd=tmp_path)
        assert (lost.returncode, lost.stderr.count("\n")) == (2, 1)
        assert "data.root=DIR" in lost.stderr
    found = command("fuse", str(result.folder), "data.root=moved", cwd=tmp_path)
    assert found.returncode == 0, found.stderr
    assert f"{100 * result.accuracy['class-mean']:.1f}" in found.stdout
    words = ("--steps", "2", "data.root=moved")
    assert command("distill", str(result.folder), *words, cwd=tmp_path).returncode == 0


def test_no_figure_is_printed_for_other_classes_or_labels(result: Result, tmp_path: Path) -> None:
    pictures = tmp_path / "pictures"
    (pictures / "another").mkdir()
    for name in ("fuse", "distill"):
        done = command(name, str(result.folder), cwd=tmp_path)
        assert done.returncode == 2
        assert "has the classes another, class0, class1, class2, the run class0, class1" in done.stderr
        assert "%" not in done.stdout
    (pictures / "another").rmdir()
    (pictures / "class1" / "0.png").rename(pictures / "class2" / "extra.png")
    done = command("fuse", str(result.folder), cwd=tmp_path)
    assert "has other training labels than the run" in done.stderr
    (pictures / "class2" / "extra.png").rename(pictures / "class1" / "0.png")
    assert command("fuse", str(result.folder), cwd=tmp_path).returncode == 0


def test_another_folder_is_refused_and_named(result: Result, tmp_path: Path) -> None:
    write_pictures(tmp_path / "other", classes=2)
    done = command("fuse", str(result.folder), "data.root=other", cwd=tmp_path)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "data.root=other: has the classes class0, class1, the run" in done.stderr


def test_the_start_is_not_asked_for_again(tmp_path: Path) -> None:
    start = tmp_path / "start.safetensors"
    save_file(build_encoder("small-cnn", (1, 8, 8)).state_dict(), start)
    model = {"name": "small-cnn", "weights": str(start)}
    result = Experiment("v4", model=model, train={"rounds": 1}, out=tmp_path / "run").run()
    start.unlink()
    for words in (("fuse", "RUN"), ("export", "RUN", "model.safetensors")):
        done = command(*(str(result.folder) if w == "RUN" else w for w in words), cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    shutil.rmtree(tmp_path / "run")
