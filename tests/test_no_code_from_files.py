"""Somebody else's files are read, never executed: code comes from the user's own words alone."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import yaml
from PIL import Image

from anchorfl import Experiment, load_run
from anchorfl.data import ImageFacts, Partition, listed
from anchorfl.data.partition import load_partition
from anchorfl.errors import UserError
from anchorfl.messages import pack, unpack
from tests.conftest import process as command
from tests.conftest import tiny_split

COMMANDS = {
    "predict": ["picture.png"],
    "evaluate": ["--data", "digits"],
    "export": ["model.onnx"],
    "distill": ["--steps", "1"],
    "fuse": [],
}
CODE = "subprocess:call"


@pytest.fixture
def poisoned(tmp_path: Path) -> Path:
    """A run whose settings and model name a program, and whose shape of images is its words."""
    folder = tmp_path / "run"
    Experiment("v4", train={"rounds": 1}, seed=1, out=folder).run()
    config = yaml.safe_load((folder / "config.yaml").read_text())
    config["model"]["name"] = CODE
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    summary = json.loads((folder / "summary.json").read_text())
    summary["images"]["shape"] = words(tmp_path)
    (folder / "summary.json").write_text(json.dumps(summary))
    change_card(folder, {"models": ["code:call"]})
    Image.fromarray(tiny_split().images[0, 0]).save(tmp_path / "picture.png")
    return folder


def words(place: Path) -> list[str]:
    """What the program would be called with."""
    return ["sh", "-c", f"touch {place / 'ran'}"]


def change_card(folder: Path, change: dict[str, object]) -> None:
    file = folder / "model.safetensors"
    content, tensors = unpack("model", file.read_bytes())
    content["card"] |= change
    file.write_bytes(pack("model", content, tensors))


@pytest.mark.parametrize("name", COMMANDS)
def test_opening_a_run_folder_executes_nothing_and_names_the_switch(name: str, poisoned: Path) -> None:
    place = poisoned.parent
    done = command(name, "run", *COMMANDS[name], cwd=place)
    assert done.returncode == 2
    if name == "fuse":
        assert f"its encoder is code ({CODE})" in done.stderr
        assert "add --trust" in done.stderr
    else:
        assert "its encoder is code:call, code that no file brings along" in done.stderr
        assert "add --model FILE.py:NAME" in done.stderr
    assert done.stderr.count("\n") == 1
    facts = {"shape": words(place), "classes": 10, "mean": [0.5], "std": [0.2]}
    change_card(poisoned, {"facts": facts})
    trusted = command(name, "run", *COMMANDS[name], "--trust", cwd=place)
    assert (trusted.returncode, trusted.stderr.count("\n")) == (2, 1)
    assert not (place / "ran").exists()


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


def test_a_class_name_leads_nowhere_outside_the_folder(tmp_path: Path) -> None:
    for place in ("inside/cat", "outside"):
        (tmp_path / place).mkdir(parents=True)
        Image.fromarray(tiny_split().images[0, 0]).save(tmp_path / place / "0.png")
    found = listed(tmp_path / "inside", ["cat", "../outside", str(tmp_path / "outside")])
    assert [(path.parent.name, label) for path, label in found] == [("cat", 0)]


def test_deep_or_endless_files_are_one_line(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    Experiment("v4", train={"rounds": 1}, seed=1, out=folder).run()
    whole = {
        name: (folder / name).read_text() for name in ("config.yaml", "metrics.jsonl", "summary.json")
    }
    deep = "[" * 100_000
    bomb = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"{new}: &{new} [{', '.join([f'*{old}'] * 9)}]\n"
        for old, new in zip("abcdefgh", "bcdefghi", strict=True)
    )
    changes = {
        "config.yaml": [deep, f"method: v4\n{bomb}"],
        "metrics.jsonl": [
            deep,
            "{}",
            '{"event": "client"}',
            '{"event": "round", "accuracy": {"x": 7}}',
        ],
        "summary.json": [deep, '{"status": "finished", "class_names": {"a": 1}}'],
    }
    for name, texts in changes.items():
        whole = (folder / name).read_text()
        for text in texts:
            (folder / name).write_text(text + "\n")
            done = command("compare", "run", cwd=tmp_path)
            assert done.returncode == 2, (name, text[:40])
            assert done.stderr.count("\n") == 1
            assert "Traceback" not in done.stderr
        (folder / name).write_text(whole)


def test_names_command_neither_terminal_nor_spreadsheet(tmp_path: Path) -> None:
    folder = tmp_path / "run\x1b[31m"
    Experiment("v4", train={"rounds": 1}, seed=1, out=folder).run()
    text = (folder / "summary.json").read_text()
    names = [f"=cmd()\x1b[2J{k}" for k in range(10)]
    content = {**json.loads(text), "class_names": names}
    (folder / "summary.json").write_text(json.dumps(content))
    change_card(folder, {"class_names": names})
    Image.fromarray(tiny_split().images[0, 0]).save(tmp_path / "picture.png")
    for given in (
        ["predict", folder.name, "picture.png", "--csv", "out.csv"],
        ["compare", folder.name],
    ):
        done = command(*given, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert "\x1b" not in done.stdout + done.stderr
    assert ",'=cmd()" in (tmp_path / "out.csv").read_text()


def test_a_rehashed_partition_may_not_repeat_samples_or_hold_out_a_clients(tmp_path: Path) -> None:
    labels = np.arange(12) % 4
    for clients, validation, reason in (
        ([[0, 1, 1], [2]], [], "the same sample twice"),
        ([[0, 1], [2]], [2, 3], "holds out samples for validation that a client has"),
    ):
        parts = [np.array(own) for own in clients]
        partition = Partition(parts, np.array([], np.int64), np.array(validation, np.int64))
        partition.save(tmp_path / "partition.json", "tiny", labels)
        with pytest.raises(UserError, match=reason):
            load_partition(tmp_path / "partition.json", "tiny", labels)
