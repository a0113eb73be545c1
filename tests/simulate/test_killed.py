"""Killed by SIGKILL at any moment, a run or a sweep goes on to exactly what it would have been."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.simulate.folders import assert_same

RUN = ["run", "v12", "align.guard=cap", "align.classes=batch", "align.sigma_lr=0.5", "train.rounds=12"]
RUN += ["fusion=class-mean,feature-mean", "seed=3", "threads=1"]
SWEEP = """
settings: {train.rounds: 6, fusion: "class-mean,feature-mean", threads: 1}
list: [{method: v4}, {method: v12-gamma}]
grid: {seed: [1]}
at_once: 2
out: OUT
"""


def started(words: list[str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "anchorfl", *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


def to_the_end(words: list[str]) -> None:
    process = started(words)
    _, errors = process.communicate()
    assert process.returncode == 0, errors.decode()


def wait_for(there: Callable[[], bool], process: subprocess.Popen[bytes], pause: float = 0.01) -> bool:
    """Whether it came to be before the process ended."""
    while process.poll() is None:
        if there():
            return True
        time.sleep(pause)
    return False


def kill_within(words: list[str], folder: Path, draw: random.Random) -> bool:
    """Kill it at a random moment, every other time inside a checkpoint write; False where it ended."""
    process = started(words)
    checkpoints = folder / "checkpoints"
    if not wait_for(checkpoints.is_dir, process):
        return False
    if draw.random() < 0.5:
        wait_for(lambda: any(checkpoints.glob(".round-*")), process, pause=0.0)
    else:
        time.sleep(draw.uniform(0.0, 1.5))
    process.kill()
    return process.wait() == -signal.SIGKILL


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole") / "run"
    to_the_end([*RUN, f"out={folder}"])
    return folder


@pytest.mark.parametrize("kills", [3, pytest.param(20, marks=pytest.mark.soak)])
def test_a_killed_run_goes_on_to_the_same(kills: int, whole: Path, tmp_path: Path) -> None:
    """Each time it ends before it is killed, another begins: all of them must be the same."""
    draw, done, number = random.Random(kills), 0, 0
    folder = tmp_path / "run0"
    while done < kills:
        if kill_within([*RUN, f"out={folder}"], folder, draw):
            done += 1
        else:
            assert_same(whole, folder)
            number += 1
            folder = tmp_path / f"run{number}"
    to_the_end([*RUN, f"out={folder}"])
    assert_same(whole, folder)


def workers_of(parent: int) -> list[int]:
    """The processes that a process has started, and theirs."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = entry.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == parent:
            own = int(entry.parent.name)
            found += [own, *workers_of(own)]
    return found


def kill_sweep_within(words: list[str], folder: Path, draw: random.Random) -> bool:
    """Kill it at a random moment after its first new record; False where it ended. No worker stays."""
    process, begun = started(words), written(folder)
    if not wait_for(lambda: written(folder) > begun, process):
        return False
    time.sleep(draw.uniform(0.0, 0.5))
    orphans = workers_of(process.pid)
    process.kill()
    killed = process.wait() == -signal.SIGKILL
    ends = time.monotonic() + 20
    while any(Path(f"/proc/{each}").exists() for each in orphans) and time.monotonic() < ends:
        time.sleep(0.05)
    assert not [each for each in orphans if Path(f"/proc/{each}").exists()]
    return killed


def written(folder: Path) -> int:
    """Bytes of records, of all trials."""
    return sum(file.stat().st_size for file in folder.glob("*/metrics.jsonl"))


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")
@pytest.mark.parametrize("kills", [3, pytest.param(5, marks=pytest.mark.soak)])
def test_a_killed_sweep_leaves_no_orphan_and_goes_on_to_the_same(kills: int, tmp_path: Path) -> None:
    for name in ("whole", "killed"):
        (tmp_path / f"{name}.yaml").write_text(SWEEP.replace("OUT", str(tmp_path / name)))
    to_the_end(["sweep", str(tmp_path / "whole.yaml")])
    words, draw, done = ["sweep", str(tmp_path / "killed.yaml")], random.Random(kills), 0
    while done < kills:
        if kill_sweep_within(words, tmp_path / "killed", draw):
            done += 1
        else:
            assert_sweeps_same(tmp_path)
            shutil.rmtree(tmp_path / "killed")
    to_the_end(words)
    assert_sweeps_same(tmp_path)


def assert_sweeps_same(folder: Path) -> None:
    names = {trial.name for trial in (folder / "whole").iterdir() if trial.is_dir()}
    assert len(names) == 2
    for name in names:
        assert_same(folder / "whole" / name, folder / "killed" / name)


def test_a_second_sweep_on_the_folder_is_refused_with_the_pid_of_the_first(tmp_path: Path) -> None:
    file = tmp_path / "sweep.yaml"
    file.write_text(SWEEP.replace("OUT", str(tmp_path / "out")))
    first = started(["sweep", str(file)])
    try:
        assert wait_for((tmp_path / "out" / ".lock").is_file, first)
        time.sleep(0.5)
        second = started(["sweep", str(file)])
        _, errors = second.communicate()
        assert second.returncode == 2
        assert f"is in use by process {first.pid}" in errors.decode()
    finally:
        os.killpg(first.pid, signal.SIGKILL)
        first.wait()


def test_ctrl_c_says_how_to_go_on(tmp_path: Path) -> None:
    process = started([*RUN, f"out={tmp_path / 'run'}"])
    assert wait_for(lambda: any((tmp_path / "run" / "checkpoints").glob("round-*")), process)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate()
    assert process.returncode == 130
    assert f"anchorfl run {tmp_path / 'run'} resumes" in errors.decode()
    to_the_end(["run", str(tmp_path / "run")])
