"""Five sites and a server, each a process of its own that gets nothing but bytes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from anchorfl import Experiment
from anchorfl.config import Config
from anchorfl.data import Split
from anchorfl.experiment import Result
from anchorfl.simulate import Simulation
from tests.seam.pipes import Process

SETTINGS: dict[str, dict[str, Any]] = {
    "v12-gamma": {"fusion": "sketch-guided,class-mean,feature-mean", "train": {"rounds": 3}},
    "v4": {
        "fusion": "joint-sketch-ridge,joint-ridge,sketch-lda",
        "train": {"rounds": 2, "evaluate_every": 2},
    },
    "fedavg": {"train": {"rounds": 3}},
    "fedproto": {"train": {"rounds": 3}},
    "none": {},
}


@pytest.mark.parametrize("method", SETTINGS)
def test_every_accuracy_and_lambda_is_that_of_the_run_in_one_process(
    method: str, tmp_path: Path
) -> None:
    settings = {"seed": 3, "device": "cpu", "threads": 1, **SETTINGS[method]}
    result = Experiment(method, out=tmp_path / "run", **settings).run()
    accuracies, rounds = over_pipes(result.config, tmp_path)
    evaluations = [r for r in result.metrics if r["event"] == "round" and r["accuracy"]]
    assert accuracies == {r["round"]: r["accuracy"] for r in evaluations}
    timed = ("seconds",)
    here = [{k: v for k, v in r.items() if k not in timed} for r in rounds]
    wanted = [r for r in result.metrics if r["event"] == "client"]
    assert here == [{k: v for k, v in r.items() if k not in timed} for r in wanted]
    assert (method == "none") is (not here)


def over_pipes(config: Config, folder: Path) -> tuple[dict[int, dict[str, float]], list[Any]]:
    """The engine: it starts the processes and carries bytes between them, and looks into none."""
    simulation = Simulation.prepare(config)
    train, task = simulation.dataset.train, simulation.task.to_bytes()
    sites = []
    for number, own in enumerate(simulation.partition.clients):
        split = Split(train.images[own], train.labels[own])
        sites.append(Process("site_process", str(number), saved(split, folder / f"site-{number}.npz")))
    server = Process("server_process", saved(simulation.dataset.test, folder / "test.npz"))
    server.tell("task", task)
    asked(sites, "task", task)
    accuracies: dict[int, dict[str, float]] = {}
    rounds: list[Any] = []
    for number in range(config.train.rounds):
        for reports in asked(sites, "train", str(number).encode()):
            rounds += [json.loads(data) for data in reports]
        uploads = [data for (data,) in asked(sites, "upload")]
        server.tell("uploads", *uploads)
        for request in server.answer():
            server.tell("descriptions", *(data for (data,) in asked(sites, "describe", request)))
            server.answer()
        if config.train.evaluates(number):
            server.tell("evaluate")
            accuracies[number] = json.loads(server.answer()[0])
        if number < config.train.rounds - 1:
            server.tell("step")
            for following in server.answer():
                asked(sites, "task", following)
    for process in (*sites, server):
        process.end()
    return accuracies, rounds


def asked(sites: list[Process], kind: str, *parts: bytes) -> list[list[bytes]]:
    for site in sites:
        site.tell(kind, *parts)
    return [site.answer() for site in sites]


def saved(split: Split, path: Path) -> str:
    np.savez(path, images=split.images, labels=split.labels)
    return str(path)


def test_fedavgs_model_after_a_round_is_parameter_mean_of_the_same_uploads(tmp_path: Path) -> None:
    def run(method: str, rounds: int) -> Result:
        settings = {"fusion": "parameter-mean", "device": "cpu", "threads": 1, "seed": 2}
        train = {"rounds": rounds, "reset_optimizer": True}
        return Experiment(method, train=train, out=tmp_path / f"{method}-{rounds}", **settings).run()

    once, alone = run("fedavg", 1), run("cross-entropy", 1)
    assert once.accuracy == alone.accuracy
    ours, theirs = (each.predictor.state_dict() for each in (once, alone))
    assert all((ours[name] == theirs[name]).all() for name in ours)
    assert run("fedavg", 2).accuracy != run("cross-entropy", 2).accuracy


def test_with_spread_labels_fedavg_comes_close_to_one_client_with_all_data(tmp_path: Path) -> None:
    common = {"seed": 1, "fusion": "parameter-mean", "train": {"rounds": 20, "evaluate_every": 20}}
    many = Experiment("fedavg", partition={"alpha": 100}, out=tmp_path / "many", **common).run()
    alone = Experiment(
        "cross-entropy", partition={"clients": 1}, out=tmp_path / "alone", **common
    ).run()
    assert many.accuracy["parameter-mean"] > alone.accuracy["parameter-mean"] - 0.02
