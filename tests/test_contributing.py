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

TEXT = (Path(__file__).parents[1] / "CONTRIBUTING.md").read_text()
COMMANDS = re.findall(r"^    anchorfl (run .*)$", TEXT, re.M)


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", TEXT, re.S)


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every Python block under the name of its first line, and the entry points as metadata."""
    root = tmp_path_factory.mktemp("package")
    for block in blocks("python"):
        name = re.match(r"# (\w+\.py)\n", block)
        assert name, block
        (root / name.group(1)).write_text(block)
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
