"""What a run leaves is whole, or not there; what was cut is read as far as it goes."""

from __future__ import annotations

from pathlib import Path

import pytest

from anchorfl import Experiment, load_run
from anchorfl.errors import UserError
from anchorfl.events import BatchTrained, RoundEnded
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


@pytest.mark.parametrize(
    "writing", ["simulate.simulation.Simulation.write_uploads", "model.fused.FusedModel.save"]
)
def test_a_disk_that_fills_up_under_what_a_run_leaves_loses_no_training(
    writing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*words: object) -> None:
        raise OSError(28, "No space left on device", "client-000.safetensors")

    experiment = Experiment("v4", train={"rounds": 3}, seed=1, out=tmp_path / "run")
    with monkeypatch.context() as patch:
        patch.setattr(f"anchorfl.{writing}", full)
        with pytest.raises(UserError, match=r"No space left.*resumes from its last checkpoint"):
            experiment.run()
    run = read_run(tmp_path / "run")
    accuracy = run.summary.final_accuracy or {}
    assert accuracy["sketch-guided"] > 0.5
    trained = []
    result = experiment.run(lambda e: trained.append(e.round) if isinstance(e, BatchTrained) else None)
    assert set(trained) == {2}
    assert result.accuracy == accuracy


def test_a_run_that_did_not_finish_is_no_result(tmp_path: Path) -> None:
    """Neither one that was cut off, nor one that failed, was stopped, or is still going."""

    def loaded(status: str) -> str:
        with pytest.raises(UserError, match="run") as told:
            load_run(tmp_path / "run")
        text = str(told.value)
        assert text.startswith(f"{tmp_path / 'run'}: the run did not finish ({status})")
        for words in (["report", "run"], ["diagnose", "run"]):
            done = command(*words, cwd=tmp_path)
            assert done.returncode == 0, done.stderr
        return text

    def end(event: object) -> None:
        if isinstance(event, RoundEnded) and event.round == 1:
            raise error

    experiment = Experiment("v4", train={"rounds": 3}, seed=1, out=tmp_path / "run")
    for error, status in ((RuntimeError("a bug"), "failed"), (KeyboardInterrupt(), "stopped")):
        with pytest.raises(type(error)):
            experiment.run(end)
        assert loaded(status).endswith(f"anchorfl run {tmp_path / 'run'} resumes it")
    (tmp_path / "run" / "summary.json").unlink()
    with pytest.raises(UserError, match=r"holds no run that ended \(no valid summary\.json\)"):
        load_run(tmp_path / "run")
    assert experiment.run().accuracy == load_run(tmp_path / "run").accuracy
    stopped = (tmp_path / "run" / "summary.json").read_text().replace('"finished"', '"stopped"')
    (tmp_path / "run" / "summary.json").write_text(stopped)
    assert "resumes" not in loaded("stopped")
