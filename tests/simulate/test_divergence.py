"""A client that diverges stops before it poisons the run."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from anchorfl import Experiment
from anchorfl.diagnose import diagnose
from anchorfl.errors import UserError
from anchorfl.model import export
from anchorfl.runs import read_run
from tests.conftest import command, own_code_forgotten


def test_it_halts_with_its_last_good_state_and_the_others_go_on(tmp_path: Path) -> None:
    result = Experiment(
        "v4",
        train={"rounds": 4, "lr": 50.0, "clip_norm": 0.0},
        fusion="class-mean,feature-mean",
        seed=2,
        out=tmp_path / "run",
    ).run()
    stopped = [record for record in result.metrics if record["event"] == "warning"]
    assert {record["kind"] for record in stopped} == {"non-finite"}
    assert "keeps the weights that it had before; lower train.lr" in stopped[0]["message"]
    halted = {record["client"]: record["round"] for record in stopped}
    assert len(halted) == len(stopped)
    assert 0 in halted.values()
    assert set(halted.values()) != {0}
    for client, number in halted.items():
        assert result.run.clients[client][-1]["round"] == number
    assert result.summary.status == "finished"
    assert all(math.isfinite(value) for value in result.accuracy.values())
    words = " ".join(verdict.text for verdict in diagnose(result.run))
    assert "Training diverged on" in words
    assert "Lower train.lr, which is 50." in words


@pytest.mark.parametrize("lr", [1e30, 1e8])
def test_where_every_client_diverges_in_its_first_round_the_run_fails(
    lr: float, tmp_path: Path
) -> None:
    """Feature statistics alone would make a fair model, and hide that nothing was learned."""
    train = {"rounds": 2, "lr": lr, "clip_norm": 0}
    with pytest.raises(UserError, match=r"method v12: the loss is not finite.*lower train\.lr") as told:
        Experiment("v12", train=train, seed=1, out=tmp_path / "run").run()
    assert "\n" not in str(told.value)
    run = read_run(tmp_path / "run")
    assert (run.summary.status, run.summary.final_accuracy) == ("failed", None)
    assert {record["client"] for record in run.warnings} == {0, 1, 2, 3, 4}
    assert "NaN" not in run.files.metrics.read_text()
    assert "Training diverged on" in run.files.page.read_text()


NAN_LOSS = """
import torch

from anchorfl.methods import Method
from anchorfl.objective import BASE_TERMS, BaseTerm

TERM = BaseTerm("log(-1)", lambda views: torch.log(0 * views.features.mean() - 1))
BASE_TERMS.register("no-number")(TERM)
TERMS = ("classification", "no-number")
MINE = Method("the logarithm of a negative number", target=None, base_terms=TERMS)
"""


def test_a_loss_term_that_is_no_number_ends_the_run_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(NAN_LOSS)
    with own_code_forgotten():
        done = command("run", "mine.py:MINE", "train.rounds=2", "out=run", cwd=tmp_path)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "method mine.py:MINE: the loss is not finite" in done.stderr
    assert read_run(tmp_path / "run").summary.status == "failed"


def short(folder: Path) -> Experiment:
    return Experiment("v4", train={"rounds": 1}, fusion="class-mean", seed=2, out=folder)


def test_a_predictor_with_scores_that_are_not_finite_is_refused(tmp_path: Path) -> None:
    result = Experiment(
        "v4", train={"rounds": 1}, fusion="class-mean", seed=2, out=tmp_path / "r"
    ).run()
    predictor = result.predictor
    predictor.head.directions[0, 0, 0] = math.nan  # type: ignore[index]
    for name in ("x.safetensors", "x.onnx", "x.pt2"):
        with pytest.raises(UserError, match="scores are not finite"):
            export(predictor, tmp_path / name)
        assert not (tmp_path / name).exists()


def test_scores_that_are_not_finite_are_no_class(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from anchorfl.fusion.class_mean import OwnersHead

    monkeypatch.setattr(
        OwnersHead, "forward", lambda self, f, images: torch.full((len(images), 10), math.nan)
    )
    with pytest.raises(UserError, match="fusion class-mean: its scores are not finite"):
        short(tmp_path / "r").run()
    assert read_run(tmp_path / "r").summary.status == "failed"


def test_where_min_count_leaves_no_mean_the_prototypes_of_owners_serve(tmp_path: Path) -> None:
    """Two sites of few pictures of a class each: nothing but counts and weights may leave them."""
    draw = np.random.default_rng(0)
    for split, count in (("train", 12), ("test", 20)):
        for name, level in (("dark", 40), ("light", 210)):
            folder = tmp_path / "data" / split / name
            folder.mkdir(parents=True)
            for number in range(count):
                pixels = np.clip(draw.normal(level, 20, (16, 16)), 0, 255).astype(np.uint8)
                Image.fromarray(pixels).save(folder / f"{number}.png")
    experiment = Experiment(
        "v4",
        data={"name": "folder", "root": str(tmp_path / "data"), "size": 16},
        partition={"kind": "iid", "clients": 2},
        train={"rounds": 10, "evaluate_every": 10},
        describe={"filters": 16},
        fusion="sketch-guided,class-mean,feature-mean",
        seed=1,
        out=tmp_path / "run",
    )
    accuracy = experiment.run().accuracy
    assert accuracy["sketch-guided"] > 0.95
    assert accuracy["class-mean"] > 0.95


def test_an_encoder_that_saw_one_class_is_pointed_out(tmp_path: Path) -> None:
    result = Experiment(
        "v4", train={"rounds": 2}, fusion="class-mean", seed=1, out=tmp_path / "run"
    ).run()
    table = [[0] * 10 for _ in range(5)]
    table[3][8] = 100
    matrix = [[0] * 10 for _ in range(10)]
    for label in range(10):
        matrix[label][8] = 36
    summary = replace(result.summary, label_table=table, confusion={"class-mean": matrix})
    words = " ".join(verdict.text for verdict in diagnose(replace(result.run, summary=summary)))
    assert (
        "Client 3 holds one class. class-mean takes 100.0 % of all images for class 8, where 10.0 % are"
        in words
    )
