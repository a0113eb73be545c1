"""The presets that come with the package: valid, packed, and found from any folder."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from anchorfl.config import CONFIG_FORMAT, DEFAULT_FUSION
from anchorfl.errors import UserError
from anchorfl.settings import PRESETS, preset_names, read_preset, read_yaml, resolve
from anchorfl.sweep import read_plan
from tests.conftest import ROOT, command


@pytest.mark.parametrize("name", preset_names())
def test_every_preset_can_be_resolved(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    if "method" in read_yaml(Path(name), "preset"):
        settings = read_preset(Path(name))
        resolve(str(settings.pop("method")), settings)
    else:
        assert read_plan(Path(name)).trials()


def test_presets_of_one_run_lead_with_the_default_rule() -> None:
    contents = {name: read_yaml(PRESETS.parent / name, "preset") for name in preset_names()}
    first = {name: own["fusion"].split(",")[0] for name, own in contents.items() if "method" in own}
    assert set(first.values()) == {DEFAULT_FUSION.split(",")[0]}, first


def test_every_preset_is_among_the_files_that_are_packed() -> None:
    packed = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]
    found = {path for pattern in packed["anchorfl"] for path in PRESETS.parent.glob(pattern)}
    assert set(PRESETS.rglob("*.*")) <= found


def test_a_preset_runs_from_any_folder(tmp_path: Path) -> None:
    done = command("run", "presets/v4-digits.yaml", "train.rounds=1", "out=run", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "v4 on digits" in done.stdout


def test_a_task_is_made_of_a_preset_from_any_folder(tmp_path: Path) -> None:
    (tmp_path / "classes.txt").write_text("cat\ndog\n")
    words = ("presets/v4-sites.yaml", "classes.txt", "-o", "task.safetensors")
    done = command("task", "new", *words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "task.safetensors").is_file()


def test_a_file_of_ones_own_goes_before_the_packages(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "presets").mkdir()
    (tmp_path / "presets" / "v4-digits.yaml").write_text("method: v7\n")
    monkeypatch.chdir(tmp_path)
    assert read_preset(Path("presets/v4-digits.yaml")) == {"method": "v7"}


def test_a_run_of_another_format_is_refused_in_a_line_that_names_it(tmp_path: Path) -> None:
    """As a preset and as a run; the first format did not name itself."""
    done = command("run", "v4", "train.rounds=1", "device=cpu", "out=run", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    config, written = tmp_path / "run" / "config.yaml", f"format: {CONFIG_FORMAT}\n"
    text = config.read_text()
    assert written in text
    asked = (("run", "run/config.yaml", "out=again"), ("report", "run"), ("fuse", "run"))
    for number, line in (("5", "format: 5\n"), ("7", "format: 7\n"), ("1", "")):
        config.write_text(text.replace(written, line))
        for words in asked:
            refused = command(*words, cwd=tmp_path)
            assert (refused.returncode, refused.stderr.count("\n")) == (2, 1), words
            wanted = f"is of format {number}; this anchorfl reads format {CONFIG_FORMAT}"
            assert wanted in refused.stderr
    assert not (tmp_path / "again").exists()


def test_a_preset_of_ones_own_names_no_format(tmp_path: Path) -> None:
    (tmp_path / "own.yaml").write_text("method: v4\ndevice: cpu\ntrain:\n  rounds: 1\n")
    assert read_preset(tmp_path / "own.yaml") == {"method": "v4", "device": "cpu", "train.rounds": 1}


def test_a_misspelt_preset_is_named_with_the_nearest(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=r"did you mean presets/v4-digits\.yaml"):
        read_preset(Path("presets/v4-digts.yaml"))
