"""V6: the public share, the teacher's bank, and what travels."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from anchorfl import Experiment
from anchorfl.compute import EagerStepper, Stepper, Steps
from anchorfl.data import ImageStore, Shard
from anchorfl.errors import UserError
from anchorfl.messages import Task
from anchorfl.methods import METHODS
from anchorfl.objective import Bank
from anchorfl.objective.losses import bank_contrast
from anchorfl.prepare import Setup
from anchorfl.simulate import Simulation
from anchorfl.simulate.teacher import build_bank, teacher_setup
from anchorfl.site import Trainer
from tests.conftest import CPU, make_setup, make_site


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
    setup = make_setup("v6")
    options, weights = setup.config.target, setup.task.weights
    assert isinstance(options, Bank)
    public, seen = Shard.of(store, np.arange(10)), []

    def made(on_batch: Callable[[int], None]) -> torch.Tensor:
        return build_bank(setup, options, CPU, EagerStepper(), public, on_batch)

    bank = made(seen.append)
    assert bank.shape == (10, len(weights["prototypes"].T))
    torch.testing.assert_close(bank.norm(dim=1), torch.ones(10))
    assert sum(seen) == 20 * 10
    untrained = Trainer(setup, CPU).runner.encode(weights, store.images[:10].float() / 255)
    assert not any(torch.allclose(row, bank, atol=1e-2) for row in untrained)
    torch.testing.assert_close(bank, made(lambda samples: None))


def test_the_teacher_is_what_its_options_make_it(store: ImageStore) -> None:
    setup = make_setup("v6-code", **{"align.teacher_epochs": 3})
    assert isinstance(setup.config.target, Bank)
    given = teacher_setup(setup, setup.config.target)
    assert (given.config.train.local_epochs, given.config.train.clip_norm) == (3, 0)
    assert METHODS.get(given.config.method).base_terms == ("classification",)
    first = "encoder.0.weight"
    assert not torch.equal(given.task.weights[first], setup.task.weights[first])
    images = store.images[:4]
    draws = Trainer(given, CPU).augmentation.draw(8, torch.Generator()).view(2, 4, -1)
    views = Trainer(given, CPU).augmentation.apply(images, draws)
    torch.testing.assert_close(views, (images.float() / 255).repeat(2, 1, 1, 1))
    plain = make_setup("v6")
    assert isinstance(plain.config.target, Bank)
    same = teacher_setup(plain, plain.config.target)
    assert same.config.method == "v4"
    assert torch.equal(same.task.weights[first], plain.task.weights[first])


def test_the_bank_is_made_of_the_public_share_alone_and_of_so_many_at_most(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    align = {"teacher_epochs": 1, "bank_size": 3}
    settings = {"train": {"rounds": 1}, "align": align, "out": tmp_path / "run", "seed": 3}
    config = Experiment(method="v6", **settings).config
    simulation = Simulation.prepare(config)
    asked: list[Shard] = []

    def watched(
        setup: Setup, options: Bank, device: torch.device, stepper: Stepper, public: Shard, *_: object
    ) -> torch.Tensor:
        asked.append(public)
        some = Shard(public.store, public.index[:8])
        return build_bank(setup, options, CPU, stepper, some, lambda samples: None)

    monkeypatch.setattr("anchorfl.simulate.simulation.build_bank", watched)
    simulation.open()
    (public,) = asked
    assert np.array_equal(public.index.numpy(), simulation.partition.public)
    assert np.array_equal(public.store.images.numpy(), simulation.dataset.train.images)
    assert simulation.task.target is not None
    assert len(simulation.task.target) == 3
    assert simulation.setup.task is simulation.server.task is simulation.task


def test_a_partition_without_a_public_share_is_refused(tmp_path: Path) -> None:
    Experiment(train={"rounds": 1}, out=tmp_path / "run").run()
    saved = {"file": tmp_path / "run" / "partition.json"}
    with pytest.raises(UserError, match="v6 needs a public share, and this partition has none"):
        Simulation.prepare(Experiment(method="v6", partition=saved).config)


def test_the_bank_travels_in_the_task_with_its_bytes() -> None:
    task = make_setup("v6").task
    filled = replace(task, target=torch.rand(7, 64))
    assert len(filled.to_bytes()) >= len(task.to_bytes()) + 7 * 64 * 4
    again = Task.from_bytes(filled.to_bytes())
    assert again.target is not None
    assert filled.target is not None
    assert torch.equal(again.target, filled.target)


def test_stage_one_moves_the_encoder_and_leaves_the_prototypes(store: ImageStore) -> None:
    settings = {"train.local_epochs": 2, "train.rounds": 1}
    setup = make_setup("v6", **settings)
    dimension = setup.task.weights["prototypes"].shape[1]
    bank = torch.nn.functional.normalize(torch.randn(5, dimension), dim=1)
    setup = replace(setup, task=replace(setup.task, target=bank))
    site = make_site(Trainer(setup, CPU), 0, store, np.arange(12))
    before = {name: value.clone() for name, value in site.state.items()}
    steps = Steps(site.trainer.step, site.state)
    site._train_epoch(0, steps, lambda samples: None)
    assert torch.equal(site.state["weights/prototypes"], before["weights/prototypes"])
    moved = [name for name in before if name.startswith("weights/encoder")]
    assert any(not torch.equal(site.state[name], before[name]) for name in moved)
    site._train_epoch(1, steps, lambda samples: None)
    assert not torch.equal(site.state["weights/prototypes"], before["weights/prototypes"])


def test_v6_takes_the_public_share_from_every_client(tmp_path: Path) -> None:
    settings = {"train": {"rounds": 1, "local_epochs": 2}, "out": tmp_path / "run", "seed": 3}
    experiment = Experiment(method="v6", **settings)
    partition = Simulation.prepare(experiment.config).partition
    held = np.concatenate(partition.clients)
    assert len(partition.public) == round(0.1 * (len(held) + len(partition.public)))
    assert not np.isin(partition.public, held).any()
    result = experiment.run()
    plain = Experiment(method="v4", train={"rounds": 1}, out=tmp_path / "v4", seed=3).run()
    extra = (result.summary.task_bytes or 0) - (plain.summary.task_bytes or 0)
    assert extra >= 4 * len(partition.public) * 64
