"""A frozen encoder: nothing of it changes, nothing of it travels, and everything else still works."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from anchorfl import Experiment, load_run
from anchorfl.data import ImageStore, load_dataset
from anchorfl.simulate import fuse_again
from anchorfl.site import Site, Trainer
from anchorfl.tensors import section
from tests.conftest import make_site, make_trainer

PARTLY = """
from torch import nn


def partly(shape):
    body = nn.Sequential(nn.Conv2d(shape[0], 8, 3, bias=False), nn.BatchNorm2d(8), nn.ReLU())
    body.requires_grad_(False)
    return nn.Sequential(body, nn.Conv2d(8, 8, 3, bias=False), nn.BatchNorm2d(8), nn.Flatten())
"""


def trained(trainer: Trainer, store: ImageStore) -> Site:
    site = make_site(trainer, 0, store, range(12))
    site.train_round(0)
    return site


def test_a_frozen_encoder_keeps_weights_and_statistics_and_stays_at_home(store: ImageStore) -> None:
    trainer = make_trainer("v7", **{"model.freeze": True, "fusion": "class-mean"})
    site = trained(trainer, store)
    start = trainer.task.weights
    state = {**section(site.state, "weights"), **section(site.state, "buffers")}
    for name, value in state.items():
        assert torch.equal(value, start[name]) is (name != "prototypes"), name
    upload = site.upload()
    assert upload.trained.keys() == {"prototypes"}
    assert upload.weights.keys() == start.keys()
    assert all(torch.equal(upload.weights[name], start[name]) for name in upload.frozen)
    whole = trained(make_trainer("v7", fusion="class-mean"), store).upload()
    assert len(upload.to_bytes()) < 0.2 * len(whole.to_bytes())


def test_of_a_partly_frozen_encoder_only_the_rest_moves_and_travels(
    store: ImageStore, tmp_path: Path
) -> None:
    (tmp_path / "own.py").write_text(PARTLY)
    trainer = make_trainer("v4", **{"model.name": f"{tmp_path}/own.py:partly"})
    site = trained(trainer, store)
    frozen = {name for name in trainer.task.weights if name.startswith("encoder.0.")}
    assert trainer.frozen.keys() == frozen
    assert {"encoder.0.1.running_mean", "encoder.0.1.weight", "encoder.0.0.weight"} <= frozen
    upload = site.upload()
    assert not upload.trained.keys() & frozen
    for name, value in trainer.task.weights.items():
        if name.startswith("encoder."):
            assert torch.equal(upload.weights[name], value) is (name in frozen), name


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("frozen") / "run"
    settings = {"fusion": "class-mean,feature-mean,parameter-mean", "seed": 1, "device": "cpu"}
    Experiment("v4", model={"freeze": True}, train={"rounds": 2}, out=out, **settings).run()
    return out


def test_the_frozen_part_is_kept_once_and_the_run_predicts_and_fuses_again(folder: Path) -> None:
    files = {path.name: path.stat().st_size for path in (folder / "uploads").iterdir()}
    assert files["frozen.safetensors"] > 10 * files["client-000.safetensors"] > 0
    result = load_run(folder)
    test = load_dataset(result.config.data).test
    predicted = result.predictor(torch.from_numpy(test.images).float() / 255).argmax(dim=1)
    right = float((predicted.numpy() == test.labels).mean())
    assert right == pytest.approx(result.accuracy["class-mean"])
    again = fuse_again(result.run, {"device": "cpu"}, every=False).evaluation.accuracy()
    assert again == pytest.approx(result.accuracy)


def test_an_exploding_lambda_on_a_frozen_encoder_ends_in_a_warning(tmp_path: Path) -> None:
    align = {"sigma_lr": 0.5, "sigma_momentum": 0.0}
    train = {"rounds": 30, "evaluate_every": 30}
    settings = {"model": {"freeze": True}, "align": align, "train": train, "seed": 3}
    result = Experiment("v12", out=tmp_path / "run", **settings).run()
    assert result.summary.status == "finished"
    assert any("lambda is running away" in warning for warning in result.summary.warnings)
    largest = max(record["lambda_effective"] for own in result.run.clients.values() for record in own)
    assert largest > 1000
