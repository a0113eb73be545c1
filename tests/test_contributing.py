"""The examples of CONTRIBUTING.md, written to files and used as another package's are."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from anchorfl.runs import read_run
from tests.conftest import command as in_this_process
from tests.conftest import own_code_forgotten

TEXT = (Path(__file__).parents[1] / "CONTRIBUTING.md").read_text()
COMMANDS = re.findall(r"^    anchorfl (run .*)$", TEXT, re.M)


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", TEXT, re.S)


def write_files(folder: Path) -> None:
    """Every Python block under the name of its first line."""
    for block in blocks("python"):
        name = re.match(r"# (\w+\.py)\n", block)
        assert name, block
        (folder / name.group(1)).write_text(block)


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files, and the entry points as metadata."""
    root = tmp_path_factory.mktemp("package")
    write_files(root)
    metadata = root / "mine-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n")
    groups = tomllib.loads("\n".join(blocks("toml")))["project"]["entry-points"]
    lines = []
    for group, points in groups.items():
        lines += [f"[{group}]", *(f"{name} = {place}" for name, place in points.items())]
    (metadata / "entry_points.txt").write_text("\n".join(lines) + "\n")
    return root


def command(package: Path, *words: str) -> subprocess.CompletedProcess[str]:
    paths = os.pathsep.join([str(package), os.environ.get("PYTHONPATH", "")])
    return subprocess.run(
        [sys.executable, "-m", "anchorfl", *words],
        cwd=package,
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=300,
    )


def run_alone(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """The command where nobody has imported a file yet."""
    with own_code_forgotten():
        return in_this_process(*words, cwd=cwd)


def test_there_is_an_example_of_everything(package: Path) -> None:
    names = {path.name for path in package.glob("*.py")}
    assert names == {
        "my_balance.py",
        "my_data.py",
        "my_encoder.py",
        "my_given.py",
        "my_fusion.py",
        "my_rounds.py",
        "my_term.py",
    }
    assert len(COMMANDS) == 4


@pytest.mark.parametrize("number", range(len(COMMANDS)))
def test_the_commands_shown_run(package: Path, number: int) -> None:
    out = f"run{number}"
    done = command(package, *COMMANDS[number].split(), "train.rounds=3", f"out={out}")
    assert done.returncode == 0, done.stderr
    primary = "parameter-mean" if "fedmedian" in COMMANDS[number] else "nearest-sum"
    assert f"{primary} (primary)" in done.stdout
    summary = read_run(package / out).summary
    assert summary.class_names == ["lying", "upright"]
    assert (summary.accuracy(primary) or 0) > 0.9


def test_what_is_added_appears_by_itself(package: Path) -> None:
    method = command(package, "methods", "v7-far").stdout
    assert "mean of cos(P_a, P_b)^2" in method
    assert "V7 by a balance of our own" in command(package, "methods").stdout
    fusions = command(package, "methods", "--fusions").stdout
    assert "The best cosine to any client's sum of features." in fusions
    assert "stripes that lie or stand" in command(package, "data", "list").stdout


BY_FILE = {
    "my_balance.py:Sum": "my_balance.py:Sum align.strength=2",
    "my_balance.py:V7_SUM": "my_balance.py:V7_SUM",
    "my_given.py:Lacking": "my_given.py:Lacking align.schedule=linear",
    "my_term.py:V7_FAR": "my_term.py:V7_FAR",
    "my_rounds.py:FEDMEDIAN": "my_rounds.py:FEDMEDIAN",
    "my_fusion.py:NearestSum": "v4 fusion=sketch-guided,my_fusion.py:NearestSum",
    "my_data.py:STRIPES": "v4 data.name=my_data.py:STRIPES partition.alpha=1",
    "my_encoder.py:wide": "v4 model.name=my_encoder.py:wide",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files, where nothing is installed."""
    root = tmp_path_factory.mktemp("files")
    write_files(root)
    return root


@pytest.mark.parametrize("name", BY_FILE)
def test_every_example_runs_by_its_file(folder: Path, name: str) -> None:
    out = name.replace(":", "-")
    short = ["train.rounds=1", f"out={out}"]
    done = run_alone("run", *BY_FILE[name].split(), *short, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert run_alone("report", out, cwd=folder).returncode == 0
    done = run_alone("fuse", out, "--trust", cwd=folder)
    assert done.returncode == 0, done.stderr


def test_a_data_set_by_its_file_is_shown_and_measured_with(folder: Path) -> None:
    done = run_alone("data", "show", "my_data.py:STRIPES", "partition.alpha=1", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "lying" in done.stdout
    words = ("data.name=my_data.py:STRIPES", "partition.alpha=1", "train.rounds=1", "out=measured")
    assert run_alone("run", "v4", *words, cwd=folder).returncode == 0
    assert run_alone("export", "measured", "model.safetensors", "--trust", cwd=folder).returncode == 0
    words = ("model.safetensors", "--data", "my_data.py:STRIPES")
    done = run_alone("evaluate", *words, cwd=folder)
    assert done.returncode == 0, done.stderr
    done = run_alone("fuse", "measured", cwd=folder)
    assert "my_data.py:STRIPES' is code" in done.stderr


def test_a_package_may_register_what_its_entry_points_offer(package: Path) -> None:
    words = ("my_term.py:V7_FAR", "data.name=stripes", "partition.alpha=1", "fusion=nearest-sum")
    done = command(package, "run", *words, "train.rounds=1", "out=both")
    assert done.returncode == 0, done.stderr
