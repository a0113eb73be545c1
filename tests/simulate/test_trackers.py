import sys
from pathlib import Path

import pytest

from anchorfl import Experiment
from anchorfl.errors import UserError
from anchorfl.runs import read_run


def test_tensorboard_gets_the_records_under_their_names(tmp_path: Path) -> None:
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    Experiment("v12", train={"rounds": 2}, seed=1, track="tensorboard", out=tmp_path / "run").run()
    events = accumulator.EventAccumulator(str(tmp_path / "run" / "tensorboard"))
    events.Reload()
    run = read_run(tmp_path / "run")
    told = [point.value for point in events.Scalars("client/2/lambda_raw")]
    assert told == pytest.approx([record["lambda_raw"] for record in run.clients[2]], rel=1e-5)
    accuracy = [point.value for point in events.Scalars("accuracy/class-mean")]
    wanted = [record["accuracy"]["class-mean"] for record in run.evaluations]
    assert accuracy == pytest.approx(wanted, rel=1e-5)


def test_mlflow_gets_parameters_and_metrics(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[str, object]] = []

    class Fake:
        @staticmethod
        def start_run(run_name: str) -> None:
            calls.append(("start", run_name))

        @staticmethod
        def log_params(settings: dict[str, object]) -> None:
            calls.append(("lr", settings["train.lr"]))

        @staticmethod
        def log_metrics(values: dict[str, float], step: int) -> None:
            calls.extend((name, step) for name in values)

        @staticmethod
        def end_run(status: str) -> None:
            calls.append(("end", status))

    monkeypatch.setitem(sys.modules, "mlflow", Fake)
    Experiment("v7", train={"rounds": 2}, track="mlflow", out=tmp_path / "run").run()
    assert calls[0] == ("start", "run")
    assert calls[1] == ("lr", 0.05)
    assert ("client/0/lambda_effective", 1) in calls
    assert ("accuracy/feature-mean", 0) in calls
    assert calls[-1] == ("end", "FINISHED")


def test_a_missing_tracker_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mlflow", None)
    with pytest.raises(UserError, match=r"track=mlflow needs the extra"):
        Experiment("v4", train={"rounds": 1}, track="mlflow", out=tmp_path / "run").run()
    assert not (tmp_path / "run").exists()
