"""V6: the public share, the teacher's bank, and what travels."""

from pathlib import Path

import numpy as np
import pytest
import torch

from anchorfl import Experiment
from anchorfl.compute import EagerStepper, Stepper, Steps
from anchorfl.data import ImageStore
from anchorfl.engine import Federation, teacher
from anchorfl.engine.teacher import build_bank, teacher_task
from anchorfl.errors import UserError
from anchorfl.objective import Bank
from anchorfl.objective.losses import bank_contrast
from anchorfl.registry import METHODS
from anchorfl.site import Client, Trainer
from anchorfl.wire import Task
from tests.conftest import CPU, FACTS, make_trainer


def test_the_contrast_sets_the_other_view_against_the_bank() -> None:
    generator = torch.Generator().manual_seed(0)
    features = torch.nn.functional.normalize(torch.randn(6, 5, generator=generator), dim=1)
    bank = torch.nn.functional.normalize(torch.randn(4, 5, generator=generator), dim=1)
    wanted = []
    for i in range(6):
        positive = torch.exp(features[i] @ features[(i + 3) % 6] / 0.5)
        negatives = torch.exp(features[i] @ bank.T / 0.5).sum()
        wanted.append(-torch.log(positive / (positive + negatives)))
    got = bank_contrast(features, bank, torch.ones(6), 0.5)
    torch.testing.assert_close(got, torch.stack(wanted).mean())
    padded = bank_contrast(features, bank, torch.tensor([1.0, 0, 1, 1, 0, 1]), 0.5)
    torch.testing.assert_close(padded, torch.stack(wanted)[[0, 2, 3, 5]].mean())


def test_the_bank_is_made_of_normalised_features_of_a_trained_teacher(store: ImageStore) -> None:
    task = Task.prepare(make_trainer("v6").config, FACTS)
    public, seen = np.arange(10), []
    bank = build_bank(task, CPU, EagerStepper(), store, public, seen.append)
    assert bank.shape == (10, len(task.weights["prototypes"].T))
    torch.testing.assert_close(bank.norm(dim=1), torch.ones(10))
    assert sum(seen) == 20 * 10
    untrained = make_trainer("v6").runner.encode(task.weights, store.images[:10].float() / 255)
    assert not any(torch.allclose(row, bank, atol=1e-2) for row in untrained)
    torch.testing.assert_close(bank, build_bank(task, CPU, EagerStepper(), store, public, seen.append))


def test_the_teacher_is_what_its_options_make_it(store: ImageStore) -> None:
    task = Task.prepare(make_trainer("v6-code", **{"align.teacher_epochs": 3}).config, FACTS)
    assert isinstance(task.config.target, Bank)
    given = teacher_task(task, task.config.target)
    assert (given.config.train.local_epochs, given.config.train.clip_norm) == (3, 0)
    assert METHODS.get(given.config.method).base_terms == ("classification",)
    assert not torch.equal(given.weights["encoder.0.weight"], task.weights["encoder.0.weight"])
    images = store.images[:4]
    draws = Trainer(given, CPU).augmentation.draw(8, torch.Generator()).view(2, 4, -1)
    views = Trainer(given, CPU).augmentation.apply(images, draws)
    torch.testing.assert_close(views, (images.float() / 255).repeat(2, 1, 1, 1))
    plain = Task.prepare(make_trainer("v6").config, FACTS)
    assert isinstance(plain.config.target, Bank)
    same = teacher_task(plain, plain.config.target)
    assert same.config.method == "v4"
    assert torch.equal(same.weights["encoder.0.weight"], plain.weights["encoder.0.weight"])


def test_the_bank_is_made_of_the_public_share_alone_and_of_so_many_at_most(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    align = {"teacher_epochs": 1, "bank_size": 3}
    settings = {"train": {"rounds": 1}, "align": align, "out": tmp_path / "run", "seed": 3}
    config = Experiment(method="v6", **settings).config
    federation = Federation.prepare(config)
    asked: list[np.ndarray] = []

    def watched(
        task: Task, device: object, stepper: Stepper, store: ImageStore, public: np.ndarray, *_: object
    ) -> torch.Tensor:
        asked.append(public)
        return build_bank(task, CPU, stepper, store, public[:8], lambda samples: None)

    monkeypatch.setattr(teacher, "build_bank", watched)
    federation._fill_bank(ImageStore(federation.dataset.train, CPU))
    assert np.array_equal(asked[0], federation.partition.public)
    assert federation.task.target is not None
    assert len(federation.task.target) == 3


def test_a_partition_without_a_public_share_is_refused(tmp_path: Path) -> None:
    Experiment(train={"rounds": 1}, out=tmp_path / "run").run()
    saved = {"file": tmp_path / "run" / "partition.json"}
    with pytest.raises(UserError, match="v6 needs a public share, and this partition has none"):
        Federation.prepare(Experiment(method="v6", partition=saved).config)


def test_the_bank_travels_in_the_task_with_its_bytes(store: ImageStore) -> None:
    task = Task.prepare(make_trainer("v6").config, FACTS)
    filled = Task(task.config, FACTS, task.weights, target=torch.rand(7, 64))
    assert len(filled.to_bytes()) >= len(task.to_bytes()) + 7 * 64 * 4
    again = Task.from_bytes(filled.to_bytes())
    assert again.target is not None
    assert filled.target is not None
    assert torch.equal(again.target, filled.target)


def test_stage_one_moves_the_encoder_and_leaves_the_prototypes(store: ImageStore) -> None:
    settings = {"train.local_epochs": 2, "train.rounds": 1}
    task = Task.prepare(make_trainer("v6", **settings).config, FACTS)
    dimension = task.weights["prototypes"].shape[1]
    bank = torch.nn.functional.normalize(torch.randn(5, dimension), dim=1)
    client = Client(
        0, Trainer(Task(task.config, FACTS, task.weights, bank), CPU), store, np.arange(12), 4
    )
    before = {name: value.clone() for name, value in client.state.items()}
    steps = Steps(client.trainer.step, client.state)
    client._train_epoch(0, steps, lambda samples: None)
    assert torch.equal(client.state["weights/prototypes"], before["weights/prototypes"])
    moved = [name for name in before if name.startswith("weights/encoder")]
    assert any(not torch.equal(client.state[name], before[name]) for name in moved)
    client._train_epoch(1, steps, lambda samples: None)
    assert not torch.equal(client.state["weights/prototypes"], before["weights/prototypes"])


def test_v6_takes_the_public_share_from_every_client(tmp_path: Path) -> None:
    settings = {"train": {"rounds": 1, "local_epochs": 2}, "out": tmp_path / "run", "seed": 3}
    experiment = Experiment(method="v6", **settings)
    partition = Federation.prepare(experiment.config).partition
    held = np.concatenate(partition.clients)
    assert len(partition.public) == round(0.1 * (len(held) + len(partition.public)))
    assert not np.isin(partition.public, held).any()
    result = experiment.run()
    plain = Experiment(method="v4", train={"rounds": 1}, out=tmp_path / "v4", seed=3).run()
    extra = (result.summary.task_bytes or 0) - (plain.summary.task_bytes or 0)
    assert extra >= 4 * len(partition.public) * 64
