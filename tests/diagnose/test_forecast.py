import math
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from anchorfl import Experiment
from anchorfl.diagnose import forecast, forecast_run, geometric, leaves, smallest_gamma
from anchorfl.diagnose.guard import replay
from anchorfl.errors import UserError
from anchorfl.methods import METHODS
from anchorfl.objective import Point, RoundMeans, Setting, Uncertainty
from anchorfl.objective.balance.uncertainty import slopes
from anchorfl.runs import read_run
from anchorfl.settings import resolve
from tests.conftest import RECORDS, command

LEARNED = [
    name
    for name in METHODS.names()
    if ":" not in name and isinstance(resolve(name, {}).align, Uncertainty)
]


@pytest.mark.parametrize("method", LEARNED)
def test_the_forecasts_slopes_are_the_gradient_that_training_follows(method: str) -> None:
    balance = resolve(method, {}).align
    assert isinstance(balance, Uncertainty)
    u, v = (torch.tensor(x, dtype=torch.float64, requires_grad=True) for x in (0.7, -0.4))
    base, align, s = (torch.tensor(x, dtype=torch.float64) for x in (6.0, 0.5, 0.3))
    seen = balance.pace(u).detach() * balance.objective(base, align, u, v, s)
    wanted = [float(x) for x in torch.autograd.grad(seen, (u, v))]
    assert slopes(balance, 6.0, 0.5, 0.7, -0.4, 0.3) == pytest.approx(wanted, rel=1e-6)


def misses(points: list[Point], records: list[dict[str, Any]]) -> list[int]:
    """The rounds in which a forecast is further from the record than it may be."""
    found = []
    for point, record in zip(points, records, strict=False):
        recorded = math.log(record["lambda_raw"])
        if abs(math.log(point.raw) - recorded) > 0.1 + 0.05 * abs(recorded):
            found.append(point.round)
    return found


@pytest.mark.parametrize(
    "name",
    [
        "v12-gamma-svhn-seed1",
        "v12-gamma-svhn-seed2",
        "v12-gamma-cifar10-seed1",
        "v12-svhn-seed1",
        "v12-svhn-seed2",
        "v10-cifar10-seed1",
        "v10-decoupled-cifar10-seed1",
        "weight-annealed-svhn-seed1",
        "study/002/v12-batch",
        "study/001/v10-slow-sigma",
    ],
)
def test_a_forecast_from_round_means_follows_the_record_up_to_the_guards_alarm(name: str) -> None:
    run = read_run(RECORDS / name)
    alarms = replay(run)
    for client, points in forecast_run(run).items():
        last = alarms[client].round if client in alarms else len(points)
        assert misses(points[: last + 1], run.clients[client]) == [], client


@pytest.mark.parametrize(
    "name",
    [
        *("study/002/v12", "study/002/v12-raw-cosine", "study/002/v12-gamma"),
        *("study/002/log-annealed", "study/001/v10", "study/000/v11-cosine"),
    ],
)
def test_with_all_classes_aligned_it_follows_the_record_to_the_end(name: str) -> None:
    run = read_run(RECORDS / name)
    for client, points in forecast_run(run).items():
        assert len(points) == len(run.clients[client])
        assert misses(points, run.clients[client]) == [], client


def test_it_follows_an_exploding_v10_decoupled_to_the_end_on_all_clients_but_one() -> None:
    run = read_run(RECORDS / "v10-decoupled-cifar10-seed1")
    forecasts = forecast_run(run)
    assert [client for client in forecasts if misses(forecasts[client], run.clients[client])] == [0]
    assert min(misses(forecasts[0], run.clients[0])) > replay(run)[0].round


def test_a_forecast_follows_a_fresh_run_of_v10_decoupled(tmp_path: Path) -> None:
    train = {"rounds": 12, "evaluate_every": 12}
    Experiment("v10-decoupled", train=train, seed=2, out=tmp_path / "run").run()
    run = read_run(tmp_path / "run")
    for client, points in forecast_run(run).items():
        assert len(points) == len(run.clients[client])
        assert misses(points, run.clients[client]) == [], client


def test_v12_explodes_and_v12_gamma_does_not_on_a_falling_align_loss() -> None:
    rounds = [RoundMeans(8.0, align) for align in geometric(1.0, 0.001, 50)]
    points = forecast(resolve("v12", {}).align, rounds)
    assert points[-1].raw > 100_000
    assert leaves(points, 100) == 16 or leaves(points, 100) == 15
    gamma = smallest_gamma(rounds, 100)
    assert gamma == pytest.approx(0.04)
    cured = forecast(resolve("v12-gamma", {"align.gamma": gamma}).align, rounds)
    assert leaves(cured, 103) is None
    closed = forecast(resolve("closed-form", {}).align, rounds)
    assert closed[-1].raw == pytest.approx(0.02 * 8 / (0.001 + 0.1))
    fixed = forecast(resolve("v7-linear", {}).align, rounds)
    assert fixed[25].effective == pytest.approx(2.5)


def test_a_slow_sigma_lags_behind_its_stationary_value() -> None:
    rounds = [RoundMeans(8.0, 1.0, steps=2)] * 5
    slow = forecast(resolve("v10-decoupled", {"align.sigma_lr": 0.005}).align, rounds)
    fast = forecast(resolve("v10-decoupled", {}).align, [RoundMeans(8.0, 1.0, steps=200)] * 5)
    assert slow[-1].raw < 2
    assert fast[-1].raw == pytest.approx(8.0, rel=0.01)


def test_a_method_without_lambda_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no lambda that can be forecast"):
        forecast(resolve("v4", {}).align, [RoundMeans(8.0, 1.0)])
    done = command("forecast", "--method", "v4", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr == "error: this method has no lambda that can be forecast\n"


def test_the_command_shows_the_explosion_without_importing_torch(tmp_path: Path) -> None:
    words = [
        "--method",
        "v12",
        "--rounds",
        "50",
        "--base",
        "8",
        "--align-from",
        "1",
        "--align-to",
        "0.001",
    ]
    done = command("forecast", *words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "raw lambda exceeds 100 in round 1" in done.stdout
    assert (tmp_path / "forecast.png").stat().st_size > 5000
    code = f"import sys; sys.argv=['anchorfl','forecast',*{words!r}]\n"
    code += "from anchorfl.cli.main import main\n"
    code += "try: main()\nexcept SystemExit: pass\nprint('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "False"


def test_a_runs_forecast_stands_beside_what_was_recorded(tmp_path: Path) -> None:
    done = command("forecast", str(RECORDS / "v12-svhn-seed1"), "--bound", "1000", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "66,695,744" in done.stdout
    done = command("forecast", "nowhere", cwd=tmp_path)
    assert "error: nowhere: no such folder" in done.stderr


def test_a_run_that_was_stopped_is_forecast_on_the_schedule_it_had(tmp_path: Path) -> None:
    run = read_run(RECORDS / "v12-gamma-svhn-seed1")
    early = [record for record in run.metrics if record["round"] < 12]
    short = forecast_run(replace(run, metrics=early))
    whole = forecast_run(run)
    for client, points in short.items():
        for point, wanted in zip(points[:-1], whole[client], strict=False):
            assert point.raw == pytest.approx(wanted.raw, rel=1e-6)
            assert point.effective == pytest.approx(wanted.effective, rel=1e-6)


def test_the_runs_own_schedule_and_epochs_reach_the_sigmas() -> None:
    balance = resolve("v12", {}).align
    rounds = [RoundMeans(8.0, 1.0, steps=4)] * 10
    plain = forecast(balance, rounds)
    slowed = forecast(balance, rounds, setting=Setting(10, rate=lambda progress: 0.1))
    reset = forecast(balance, rounds, setting=Setting(10, reset_optimizer=True))
    assert slowed[3].raw < plain[3].raw
    assert reset[3].raw < plain[3].raw
    epochs = forecast(balance, rounds, setting=Setting(10, local_epochs=4))
    assert epochs[-1].effective == pytest.approx(epochs[-1].raw / 40, rel=1e-6)


def test_what_a_forecast_cannot_know_is_one_line(tmp_path: Path) -> None:
    done = command("forecast", "--method", "v9", cwd=tmp_path)
    assert done.stderr.startswith("error: this lambda starts from a client's labels")
    done = command("forecast", "align.start=entropy", cwd=tmp_path)
    assert done.stderr.startswith("error: this lambda starts from a client's labels")
    done = command("forecast", "train.lr=3", cwd=tmp_path)
    assert done.stderr.startswith("error: train.lr=3: a forecast takes align.KEY=VALUE")
    run = read_run(RECORDS / "v12-svhn-seed1")
    with pytest.raises(UserError, match="no round was recorded"):
        forecast_run(replace(run, metrics=[]))
