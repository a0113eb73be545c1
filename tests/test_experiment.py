import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from anchorfl import Experiment, Result, load_run
from anchorfl.compute import choose_threads
from anchorfl.config import DataOptions
from anchorfl.data import Partition, load_dataset
from anchorfl.errors import UserError
from anchorfl.model import FusedModel
from anchorfl.runs import new_folder
from anchorfl.simulate import Simulation, fuse_again

FUSIONS = "feature-mean,softmax-mean,iffi,parameter-mean"


def tiny(out: Path, method: str = "v4", seed: int = 1, **settings: Any) -> Result:
    train = {"rounds": 2, **settings.pop("train", {})}
    return Experiment(method, train=train, out=str(out), seed=seed, **settings).run()


def timeless(result: Result) -> list[dict[str, Any]]:
    return [
        {key: value for key, value in record.items() if "second" not in key}
        for record in result.metrics
    ]


def test_a_run_leaves_everything_the_contract_names(tmp_path: Path) -> None:
    result = tiny(tmp_path / "run", "v7", fusion=FUSIONS, data={"validation": 0.1})
    names = {path.name for path in result.folder.iterdir()}
    assert {"config.yaml", "partition.json", "metrics.jsonl", "summary.json", "uploads"} <= names
    assert {"model.safetensors", "report.html"} <= names
    assert "checkpoints" not in names
    summary = asdict(result.summary)
    assert (summary["method"], summary["dataset"], summary["seed"]) == ("v7", "digits", 1)
    assert (summary["rounds"], summary["status"], summary["warnings"]) == (2, "finished", [])
    for key in ("final_accuracy", "peak_test_accuracy", "balanced_accuracy", "macro_f1"):
        assert list(summary[key]) == FUSIONS.split(",")
        assert all(0 <= value <= 1 for value in summary[key].values())
    assert list(summary["validation_accuracy"]) == FUSIONS.split(",")
    files = sorted((result.folder / "uploads").iterdir())
    assert summary["upload_bytes"] == [file.stat().st_size for file in files]
    assert len(summary["local_accuracy"]) == 5
    events = [record["event"] for record in result.metrics]
    assert events == (["client"] * 5 + ["round"]) * 2
    assert result.lambdas == {client: [5.0, 5.0] for client in range(5)}
    config = (result.folder / "config.yaml").read_text()
    assert "auto" not in config


def test_the_same_seed_gives_the_same_metrics_and_another_seed_others(tmp_path: Path) -> None:
    first, again, other = (
        tiny(tmp_path / name, seed=seed) for name, seed in (("a", 1), ("b", 1), ("c", 2))
    )
    assert timeless(first) == timeless(again)
    assert timeless(first) != timeless(other)
    assert first.summary.partition_hash != other.summary.partition_hash


def test_a_loaded_run_predicts_what_the_run_reported(tmp_path: Path) -> None:
    result = load_run(tiny(tmp_path / "run").folder)
    test = Simulation.prepare(result.config).dataset.test
    predicted = result.predictor(torch.from_numpy(test.images).float() / 255).argmax(dim=1)
    correct = float((predicted.numpy() == test.labels).mean())
    assert correct == pytest.approx(result.accuracy["sketch-guided"])
    assert result.predictor.class_names[3] == "3"
    saved = FusedModel.load(result.folder / "model.safetensors")
    images = torch.from_numpy(test.images).float() / 255
    assert torch.equal(saved(images), result.predictor(images))


def test_an_empty_client_is_skipped_and_named(tmp_path: Path) -> None:
    samples = np.arange(1442)
    labels = load_dataset(DataOptions()).train.labels
    partition = Partition(
        [samples[:0], samples[:1], samples[1:700]], np.array([], np.int64), np.array([], np.int64)
    )
    partition.save(tmp_path / "partition.json", "digits", labels)
    place = {"kind": "file", "file": str(tmp_path / "partition.json")}
    result = tiny(tmp_path / "run", partition=place, fusion=FUSIONS)
    assert result.summary.warnings == ["client 0 holds no sample: it is skipped and has weight 0"]
    assert result.summary.local_accuracy[0] is None
    assert result.summary.upload_bytes[0] is None
    warning = next(record for record in result.metrics if record["event"] == "warning")
    assert warning["kind"] == "empty-client"
    assert sorted(result.lambdas) == [1, 2]
    result.predictor(torch.rand(1, 1, 8, 8))


def test_the_public_share_and_the_validation_share_belong_to_no_client(tmp_path: Path) -> None:
    experiment = Experiment("v4", partition={"public": 0.2}, data={"validation": 0.1})
    partition = Simulation.prepare(experiment.config).partition
    assert (len(partition.public), len(partition.validation)) == (288, 144)
    owned = np.concatenate(partition.clients)
    assert not set(owned) & (set(partition.public) | set(partition.validation))


def test_validation_accuracy_is_measured_on_the_samples_held_out(tmp_path: Path) -> None:
    result = tiny(tmp_path / "run", data={"validation": 0.2})
    simulation = Simulation.prepare(result.config)
    held_out, train = simulation.partition.validation, simulation.dataset.train
    images = torch.from_numpy(train.images[held_out]).float() / 255
    predicted = result.predictor(images).argmax(dim=1).numpy()
    correct = float((predicted == train.labels[held_out]).mean())
    assert result.summary.validation_accuracy["sketch-guided"] == pytest.approx(correct)


def test_a_partition_file_decides_the_number_of_clients_and_what_is_held_out(tmp_path: Path) -> None:
    first = tiny(tmp_path / "first", partition={"clients": 3})
    place = {"file": str(first.folder / "partition.json")}
    assert Simulation.prepare(Experiment("v4", partition=place).config).config.partition.clients == 3
    with pytest.raises(UserError, match=r"data\.validation=0\.2: .* decides that"):
        Simulation.prepare(Experiment("v4", partition=place, data={"validation": 0.2}).config)


def test_a_run_that_breaks_says_so_in_its_folder(tmp_path: Path) -> None:
    experiment = Experiment("v4", train={"rounds": 3}, out=str(tmp_path / "run"))

    def break_off(event: object) -> None:
        if getattr(event, "round", 0) == 1:
            raise RuntimeError("power cut")

    with pytest.raises(RuntimeError, match="power cut"):
        experiment.run(break_off)
    summary = json.loads((tmp_path / "run/summary.json").read_text())
    assert (summary["status"], summary["rounds"]) == ("failed", 1)
    assert summary["balanced_accuracy"] is None
    with pytest.raises(UserError, match=r"did not finish \(failed\); anchorfl run .* resumes it"):
        load_run(tmp_path / "run")


def test_a_damaged_run_folder_is_refused_with_the_reason(tmp_path: Path) -> None:
    folder = tiny(tmp_path / "run", train={"rounds": 1}).folder
    model = folder / "model.safetensors"
    model.write_bytes(model.read_bytes()[:-9])
    with pytest.raises(UserError, match=r"model\.safetensors: "):
        _ = load_run(folder).predictor
    model.unlink()
    with pytest.raises(UserError, match=r"model\.safetensors: no such file"):
        _ = load_run(folder).predictor
    (folder / "uploads/client-001.safetensors").unlink()
    with pytest.raises(UserError, match=r"client-001\.safetensors: missing"):
        fuse_again(load_run(folder).run, {}, every=False)
    (folder / "metrics.jsonl").write_text('{"event": \n')
    with pytest.raises(UserError, match=r"metrics\.jsonl: is corrupt"):
        load_run(folder)
    (folder / "metrics.jsonl").unlink()
    (folder / "summary.json").write_text("[]")
    with pytest.raises(UserError, match=r"summary\.json: is corrupt"):
        load_run(folder)
    (folder / "summary.json").unlink()
    with pytest.raises(UserError, match="holds no run that ended"):
        load_run(folder)


def test_python_values_are_as_good_as_words(tmp_path: Path) -> None:
    experiment = Experiment(
        train={"lr": np.float32(0.5), "rounds": np.int64(2)},
        out=tmp_path / "run",
        fusion=["softmax-mean", "iffi"],
    )
    config = experiment.config
    assert (config.train.lr, config.train.rounds) == (0.5, 2)
    assert config.general.out == str(tmp_path / "run")
    assert list(config.fusion) == ["softmax-mean", "iffi"]


def test_runs_started_together_never_share_a_folder(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        folders = list(pool.map(lambda _: new_folder(tmp_path / "runs", "same"), range(64)))
    assert len(set(folders)) == 64


def test_a_divergent_run_warns_and_writes_no_nan(tmp_path: Path) -> None:
    result = tiny(tmp_path / "run", seed=2, train={"rounds": 2, "lr": 50.0, "clip_norm": 0.0})
    assert "client 4 diverged in round 0" in result.summary.warnings[0]
    assert "NaN" not in (tmp_path / "run/metrics.jsonl").read_text()


def test_a_transductive_rule_is_evaluated_and_never_made_into_a_model(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="zscore-batch scores an image by the others beside it"):
        tiny(tmp_path / "run", fusion="zscore-batch,class-mean")
    assert not (tmp_path / "run").exists()
    result = tiny(tmp_path / "run", fusion="class-mean,zscore-batch")
    assert result.accuracy["zscore-batch"] > 0
    words = {"fusion": "zscore-batch,class-mean"}
    with pytest.raises(UserError, match="makes no model"):
        fuse_again(result.run, words, every=False).model()


def test_threads_are_chosen_recorded_and_given_back(tmp_path: Path) -> None:
    before = torch.get_num_threads()
    seen: list[int] = []
    experiment = Experiment("v4", train={"rounds": 1}, threads=2, out=tmp_path / "two")
    result = experiment.run(lambda event: seen.append(torch.get_num_threads()))
    assert seen[0] == 2
    assert torch.get_num_threads() == before
    assert result.config.general.threads == 2
    assert (result.summary.environment or {})["threads"] == 2
    assert "threads: 2" in (tmp_path / "two" / "report.html").read_text()
    left_unset = tiny(tmp_path / "unset", train={"rounds": 1})
    assert left_unset.config.general.threads == 1
    assert "threads: 1" in (tmp_path / "unset" / "config.yaml").read_text()


@pytest.mark.parametrize(
    ("wanted", "small", "load", "threads"),
    [
        (None, True, 0.0, 1),
        (None, False, 0.1, 4),
        (None, False, 9.0, 1),
        (None, False, 2.2, 2),
        (7, True, 9.0, 7),
    ],
)
def test_unset_threads_leave_a_busy_machine_alone(
    wanted: int | None, small: bool, load: float, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("anchorfl.compute.devices.cores", lambda: 4)
    monkeypatch.setattr("torch.get_num_threads", lambda: 4)
    monkeypatch.setattr("os.getloadavg", lambda: (load, 0.0, 0.0))
    assert choose_threads(wanted, small) == threads


def test_an_output_folder_that_holds_a_run_is_refused(tmp_path: Path) -> None:
    tiny(tmp_path / "run")
    with pytest.raises(UserError, match="holds another run"):
        tiny(tmp_path / "run")


def test_without_a_name_each_run_gets_a_folder_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folders = [Experiment("v4", train={"rounds": 1}).run().folder for _ in range(2)]
    assert [folder.name for folder in folders] == [
        "v4-digits-dirichlet-0.05-seed0",
        "v4-digits-dirichlet-0.05-seed0-2",
    ]


def test_a_look_inside_shows_every_local_epoch_of_every_client(tmp_path: Path) -> None:
    """Diary 004: after V6's first epoch a client has seen the contrast alone."""
    train = {"rounds": 2, "local_epochs": 3, "evaluate_inside": True}
    settings = {"align": {"teacher_epochs": 1}, "seed": 3}
    result = tiny(tmp_path / "run", "v6-code", train=train, **settings)
    epochs = [record for record in result.metrics if record["event"] == "epoch"]
    assert [(e["round"], e["local_epoch"]) for e in epochs if e["client"] == 1] == [
        (number, epoch) for number in range(2) for epoch in range(3)
    ]
    by_client = {record["client"]: record for record in result.metrics if record["event"] == "client"}
    for record in epochs:
        steps = by_client[record["client"]]["steps"] // 3
        assert len(record["base_losses"]) == len(record["align_losses"]) == steps
        assert 0 <= record["test_accuracy"] <= 1
    last = [e for e in epochs if (e["round"], e["local_epoch"]) == (1, 2)]
    for record in last:
        assert record["test_accuracy"] == pytest.approx(
            (result.summary.local_accuracy or [])[record["client"]], abs=0.3
        )
    first = [e for e in epochs if (e["round"], e["local_epoch"]) == (0, 0)]
    assert max(e["train_accuracy"] for e in last) > max(e["train_accuracy"] for e in first)


def test_chosen_rounds_are_evaluated_and_the_last(tmp_path: Path) -> None:
    result = tiny(tmp_path / "run", train={"rounds": 5, "evaluate_at": "0,2"})
    assert [point["round"] for point in result.run.evaluations] == [0, 2, 4]


def test_a_bar_is_shown_where_somebody_looks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tiny(tmp_path / "quiet")
    assert capsys.readouterr().out == ""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    tiny(tmp_path / "shown")
    assert "v4 on digits" in capsys.readouterr().out


def test_a_notebook_shows_a_table(tmp_path: Path) -> None:
    html = tiny(tmp_path / "run")._repr_html_()
    assert "<td>sketch-guided</td>" in html


def test_an_experiment_says_what_it_is() -> None:
    assert repr(Experiment("v7", seed=3)) == "Experiment(v7 on digits, seed 3)"
