"""The guard on recorded runs, and in runs of its own."""

from dataclasses import replace
from pathlib import Path

import pytest
from benchmarks.tables.figures import passes

from anchorfl import Experiment
from anchorfl.diagnose import Guard
from anchorfl.diagnose.guard import replay
from anchorfl.experiment import Result
from anchorfl.runs import read_run
from anchorfl.settings import read_preset, resolve
from anchorfl.simulate import run_in_folder
from tests.conftest import RECORDS

PRESET = Path(__file__).parents[2] / "presets" / "v12-gamma-digits.yaml"
EXPLODING = {
    "v12-svhn-seed1": 3,
    "v12-svhn-seed2": 4,
    "v12-group-svhn-seed1": 4,
    "weight-annealed-svhn-seed1": 3,
    "v10-decoupled-cifar10-seed1": 5,
    "study/002/v12": 4,
    "study/002/v12-raw-cosine": 4,
    "study/002/v12-raw-linear": 4,
    "study/002/v12-batch": 4,
    "study/002/log-annealed": 3,
}
QUIET = [
    "v12-gamma-svhn-seed1",
    "v12-gamma-svhn-seed2",
    "v12-gamma-cifar10-seed1",
    "v10-cifar10-seed1",
    "v9-cifar10-seed1",
    "v7-cifar10-seed1",
    "study/002/v12-gamma",
    "study/001/v10",
    "study/001/v10-decoupled",
    "study/000/v11-linear",
    "study/000/v11-cosine",
]


@pytest.mark.parametrize("name", EXPLODING)
def test_every_recorded_explosion_is_seen_before_it_passes_the_limit(name: str) -> None:
    run = read_run(RECORDS / name)
    exploded, alarms = passes(run), replay(run)
    assert len(exploded) == EXPLODING[name]
    for client, number in exploded.items():
        assert alarms[client].round < number
    assert alarms.keys() == exploded.keys()


@pytest.mark.parametrize("name", QUIET)
def test_a_bounded_lambda_raises_no_alarm(name: str) -> None:
    run = read_run(RECORDS / name)
    assert not passes(run)
    assert not replay(run)


def run_preset(method: str, tmp_path: Path, **words: object) -> Result:
    preset = read_preset(PRESET)
    preset.pop("method")
    if method != "v12-gamma":
        preset = {key: value for key, value in preset.items() if not key.startswith("align.")}
        if method != "v4":
            preset |= {"align.sigma_lr": 0.5, "align.sigma_momentum": 0.0, "align.classes": "batch"}
    settings = {**preset, "train.evaluate_every": 30, "seed": 3, "out": str(tmp_path / method), **words}
    return Result(run_in_folder(resolve(method, settings)))


def test_on_the_digits_preset_v12_is_caught_in_time_and_v12_gamma_is_left_alone(tmp_path: Path) -> None:
    exploding = read_run(run_preset("v12", tmp_path).folder)
    assert passes(exploding)
    for client, number in passes(exploding).items():
        assert replay(exploding)[client].round < number
    told = {record["client"] for record in exploding.warnings if record["kind"] == "guard"}
    assert told == set(replay(exploding))
    quiet = read_run(run_preset("v12-gamma", tmp_path).folder)
    assert not replay(quiet)
    assert not quiet.warnings
    bound = max(
        record["lambda_raw"] / (record["base_loss"] / (2 * 0.02))
        for records in quiet.clients.values()
        for record in records
    )
    assert bound < 1.05


def test_stop_ends_the_run_with_everything_saved(tmp_path: Path) -> None:
    result = run_preset("v12", tmp_path, **{"align.guard": "stop"})
    assert result.summary.status == "stopped"
    assert result.summary.rounds < 30
    assert result.accuracy["class-mean"] > 0.5
    assert result.predictor.class_names
    assert "align.guard=stop" in result.summary.warnings[0]


def test_cap_holds_the_effective_lambda_and_says_so(tmp_path: Path) -> None:
    run = read_run(run_preset("v12", tmp_path, **{"align.guard": "cap"}).folder)
    for records in run.clients.values():
        limit = 10 * records[0]["base_loss"] / records[0]["align_loss"]
        assert max(record["lambda_effective"] for record in records) <= limit * 1.0001
    assert any("is held at" in record["message"] for record in run.warnings)


@pytest.mark.parametrize("method", ["v4", "v7", "v9", "v10"])
def test_methods_without_a_runaway_lambda_raise_no_alarm(method: str, tmp_path: Path) -> None:
    train = {"rounds": 6, "evaluate_every": 6}
    result = Experiment(method=method, train=train, seed=1, out=tmp_path / "run").run()
    assert not replay(read_run(result.folder))


def test_the_guard_can_be_switched_off(tmp_path: Path) -> None:
    words = {"align.guard": "off", "train.rounds": 18}
    assert not run_preset("v12", tmp_path, **words).summary.warnings


def test_numbers_that_are_not_finite_end_in_a_warning_and_a_page(tmp_path: Path) -> None:
    train = {"rounds": 3, "lr": 50.0, "clip_norm": 0}
    result = Experiment("v12", train=train, seed=2, out=tmp_path / "run").run()
    assert "keeps the weights that it had before; lower train.lr" in str(result.summary.warnings)
    assert "Training diverged on" in (tmp_path / "run" / "report.html").read_text()


def test_a_lambda_that_the_weights_see_whole_is_judged_whole() -> None:
    run = read_run(RECORDS / "v12-svhn-seed1")
    first = {
        "client": 0,
        "base_loss": 9.0,
        "align_loss": 1.0,
        "anneal": 0.1,
        "gradient_share_encoder": 1.0,
    }
    for method, seen in (("v12-raw", True), ("v12", False)):
        balance = replace(run, settings={"method": method}).balance
        guard = Guard(balance)
        share = 1.0 if seen else 0.1
        told = []
        for number, (record, raw) in enumerate(((first, 9.0), ({**first, "align_loss": 0.5}, 25.0))):
            entry = {**record, "round": number, "lambda_raw": raw, "lambda_effective": share * raw}
            told.append(guard.look(entry))
        assert (told[-1] is not None) is seen


def test_what_lies_ahead_is_seen_only_while_the_align_loss_falls() -> None:
    """B/A is 16 times that of round 0 in both cases, and lambda has risen to 3 times it."""
    for before, sign in ((0.05, None), (0.07, "ahead")):
        guard = Guard(resolve("v10-decoupled", {}).align)
        rounds = ((1.0, 9.0), (before, 10.0), (0.06, 27.0))
        told = []
        for number, (align, raised) in enumerate(rounds):
            losses = {"base_loss": 9.0, "align_loss": align, "anneal": 1.0}
            lambdas = {"lambda_raw": raised, "lambda_effective": raised}
            told.append(guard.look({"client": 0, "round": number, **losses, **lambdas}))
        assert [alarm and alarm.sign for alarm in told] == [None, None, sign]
