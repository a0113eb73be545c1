"""What a run leaves is whole, or not there; what was cut is read as far as it goes."""

from __future__ import annotations

from pathlib import Path

import pytest

from anchorfl import Experiment, load_run
from anchorfl.errors import UserError
from anchorfl.files import whole, write_whole
from anchorfl.runs import read_run
from tests.conftest import command


def interrupted(path: Path) -> None:
    with whole(path) as place:
        place.write_text("ha")
        raise KeyboardInterrupt


def test_a_file_that_could_not_be_finished_leaves_the_one_before(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    write_whole(path, "good")
    with pytest.raises(KeyboardInterrupt):
        interrupted(path)
    assert path.read_text() == "good"
    assert [each.name for each in tmp_path.iterdir()] == ["model.onnx"]


def test_rounds_before_a_cut_line_can_be_read_reported_and_compared(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    Experiment("v7", train={"rounds": 3}, seed=1, out=folder).run()
    lines = (folder / "metrics.jsonl").read_text().splitlines(keepends=True)
    (folder / "metrics.jsonl").write_text("".join(lines[:-2]) + lines[-2][:30])
    (folder / "summary.json").unlink()
    run = read_run(folder)
    assert {len(own) for own in run.clients.values()} == {2}
    assert len(run.evaluations) == 2
    for words in (["report", "run"], ["diagnose", "run"]):
        done = command(*words, cwd=tmp_path)
        assert done.returncode == 0, done.stderr


def test_a_disk_that_fills_up_under_the_uploads_loses_no_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*words: object) -> None:
        raise OSError(28, "No space left on device", "client-000.safetensors")

    monkeypatch.setattr("anchorfl.runs.folder.RunFolder.write_uploads", full)
    with pytest.raises(UserError, match="No space left"):
        Experiment("v4", train={"rounds": 1}, seed=1, out=tmp_path / "run").run()
    result = load_run(tmp_path / "run")
    assert result.summary.status == "finished"
    assert result.accuracy["sketch-guided"] > 0.5
    with pytest.raises(UserError, match="missing or incomplete"):
        assert result.predictor
