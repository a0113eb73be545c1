"""Somebody else's files are read, never executed: code comes from the user's own words alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from anchorfl import Experiment, load_run
from anchorfl.data import ImageFacts
from anchorfl.errors import UserError
from tests.conftest import command, tiny_split
from tests.predictor.test_inference import Image

COMMANDS = {
    "predict": ["picture.png"],
    "evaluate": ["--data", "digits"],
    "export": ["model.onnx"],
    "distill": ["--steps", "1"],
    "fuse": [],
}


@pytest.fixture
def poisoned(tmp_path: Path) -> Path:
    """A run whose settings name a program, and whose shape of images is that program's words."""
    folder = tmp_path / "run"
    Experiment("v4", train={"rounds": 1}, seed=1, out=folder).run()
    config = yaml.safe_load((folder / "config.yaml").read_text())
    config["model"]["name"] = "subprocess:call"
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    summary = json.loads((folder / "summary.json").read_text())
    summary["images"]["shape"] = ["sh", "-c", f"touch {tmp_path / 'ran'}"]
    (folder / "summary.json").write_text(json.dumps(summary))
    Image.fromarray(tiny_split().images[0, 0]).save(tmp_path / "picture.png")
    return folder


@pytest.mark.parametrize("name", COMMANDS)
def test_opening_a_run_folder_executes_nothing_and_names_the_switch(name: str, poisoned: Path) -> None:
    done = command(name, "run", *COMMANDS[name], cwd=poisoned.parent)
    assert done.returncode == 2
    assert "its encoder is code (subprocess:call)" in done.stderr
    assert "add --trust" in done.stderr
    assert done.stderr.count("\n") == 1
    trusted = command(name, "run", *COMMANDS[name], "--trust", cwd=poisoned.parent)
    assert trusted.returncode == 2
    assert not (poisoned.parent / "ran").exists()


@pytest.mark.parametrize("name", ["report", "diagnose", "compare"])
def test_commands_that_build_no_network_read_it_all_the_same(name: str, poisoned: Path) -> None:
    done = command(name, "run", cwd=poisoned.parent)
    assert done.returncode == 0, done.stderr
    assert not (poisoned.parent / "ran").exists()


def test_a_python_file_beside_the_config_is_not_imported(tmp_path: Path) -> None:
    code = "from torch import nn\ndef wide(shape):\n    return nn.Sequential(nn.Flatten())\n"
    (tmp_path / "own.py").write_text(code)
    name = f"{tmp_path}/own.py:wide"
    result = Experiment("v4", model={"name": name}, train={"rounds": 1}, out=tmp_path / "run").run()
    assert result.predictor.class_names
    (tmp_path / "own.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n{code}")
    with pytest.raises(UserError, match="add --trust"):
        assert load_run(tmp_path / "run").predictor
    assert not (tmp_path / "ran").exists()
    done = command("fuse", "run", f"model.name={name}", "device=cpu", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "ran").exists()
    assert load_run(tmp_path / "run", trust=True).predictor.class_names


@pytest.mark.parametrize(
    "change",
    [
        {"shape": ["sh", "-c", "x"]},
        {"shape": [1, 8]},
        {"shape": [2, 8, 8]},
        {"shape": [1, 8, 10**9]},
        {"shape": [True, 8, 8]},
        {"classes": 0},
        {"classes": "10"},
        {"mean": [0.1, 0.2, 0.3]},
        {"std": [0.0]},
        {"std": [float("nan")]},
    ],
)
def test_facts_that_are_not_of_images_are_refused(change: dict[str, object]) -> None:
    facts = {"shape": [1, 8, 8], "classes": 10, "mean": [0.5], "std": [0.2]}
    assert ImageFacts.from_json(facts).shape == (1, 8, 8)
    with pytest.raises((ValueError, TypeError)):
        ImageFacts.from_json({**facts, **change})
