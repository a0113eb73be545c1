"""Many clients at once are what they are one by one, whatever is padded, for every balance."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from anchorfl.compute import Batch, GraphStepper, Steps
from anchorfl.compute.cuda_graphs import padded_size
from anchorfl.data import ImageFacts, ImageStore, Split
from anchorfl.methods import METHODS
from anchorfl.nn import BatchNorm, batchnorms
from anchorfl.objective import ClientFacts
from anchorfl.prepare import Setup
from anchorfl.site import Trainer
from anchorfl.tensors import Tensors
from tests.conftest import CPU, make_setup, make_site, tiny_split

NAMES = [*(name for name in METHODS.names() if name != "none"), "torchjd:DWA", "torchjd:FAMO"]
FACTS = ImageFacts((3, 8, 8), 4, (0.5, 0.5, 0.5), (0.25, 0.25, 0.25))
GREY = ImageFacts((1, 8, 8), 4, (0.5,), (0.25,))
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


@pytest.fixture
def double() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def make_trainer(method: str, facts: ImageFacts, device: torch.device, **settings: object) -> Trainer:
    if method.startswith("torchjd:"):
        pytest.importorskip("torchjd")
    settings = {"train.rounds": 3, "train.precision": "fp32", **settings}
    public = {"partition.public": 0.1} if method.startswith("v6") else {}
    setup = make_setup(method, facts, **settings, **public)
    task, target = setup.task, setup.task.target
    if method.startswith("v6"):
        dimension = task.weights["prototypes"].shape[1]
        target = nn.functional.normalize(torch.randn(5, dimension, generator=torch.Generator()), dim=1)
    weights = {name: value.to(torch.get_default_dtype()) for name, value in task.weights.items()}
    changed = replace(task, weights=weights, target=target)
    trainer = Trainer(Setup(changed, setup.config), device)
    trainer.network.to(torch.get_default_dtype())
    return trainer


@pytest.mark.parametrize("samples", range(1, 600, 7))
def test_padding_is_little_and_never_more_than_a_full_batch(samples: int) -> None:
    padded = padded_size(samples, 512)
    assert samples <= padded <= max(512, samples)
    assert padded <= 1.25 * samples + 1
    assert len({padded_size(k, 512) for k in range(1, 513)}) < 35


class Smooth(nn.Sequential):
    """An encoder without kinks: in fp32 a value beside a rectifier's kink falls to either side."""

    def __init__(self, channels: int, features: int) -> None:
        super().__init__(
            nn.Conv2d(channels, 16, 3, bias=False),
            BatchNorm(16),
            nn.Tanh(),
            nn.Conv2d(16, 32, 3, bias=False),
            BatchNorm(32),
            nn.Tanh(),
            nn.Flatten(),
            nn.Linear(32 * 4 * 4, features),
        )


def smooth_trainer(method: str, facts: ImageFacts, device: torch.device, **settings: object) -> Trainer:
    trainer = make_trainer(method, facts, device, **settings)
    torch.manual_seed(0)
    trainer.network.encoder = Smooth(facts.shape[0], trainer.network.prototypes.shape[1]).to(device)
    trainer.runner.norms = batchnorms(trainer.network)
    for norm in trainer.runner.norms.values():
        norm.use_kernel = trainer.runner.kernels
    return trainer


@pytest.mark.parametrize("method", NAMES)
def test_five_padded_steps_are_five_unpadded_ones(method: str) -> None:
    assert padding_changes(lambda: smooth_trainer(method, GREY, CPU)) < 1e-5


@pytest.mark.usefixtures("double")
@pytest.mark.parametrize("method", NAMES)
def test_so_they_are_in_double_precision(method: str) -> None:
    assert padding_changes(lambda: make_trainer(method, GREY, CPU)) < 1e-9


def padding_changes(make: Callable[[], Trainer]) -> float:
    results = []
    for size in (0, 16):
        trainer = make()
        store = ImageStore(tiny_split(), CPU)
        facts = ClientFacts(torch.tensor([3, 3, 2, 2]), 1)
        steps = Steps(trainer.step, trainer.initial_state(facts))
        for step in range(5):
            generator = torch.Generator().manual_seed(step)
            draws = trainer.augmentation.draw(20, generator).view(2, 10, -1)
            batch = Batch(*store.take(torch.arange(step, step + 10)), draws)
            steps.take(batch.padded(size) if size else batch, torch.tensor(0.05), torch.tensor(0.9))
        results.append([{**steps.state, **steps.finish()}])
    return difference(*results)


def noise_store(device: torch.device) -> ImageStore:
    images = np.random.default_rng(0).integers(0, 256, (110, 3, 8, 8), dtype=np.uint8)
    return ImageStore(Split(images, np.arange(110) % 4), device)


def rounds(trainer: Trainer, store: ImageStore, together: bool) -> list[Tensors]:
    """Small clients, five steps each, all under way at once or one after the other."""
    owns = [np.arange(9), np.arange(9, 30), np.arange(30, 36), np.arange(40, 110)]
    sites = [make_site(trainer, k, store, own) for k, own in enumerate(owns)]
    if together:
        for read in [site.start_round(0, lambda samples: None) for site in sites]:
            read()
    else:
        for site in sites:
            site.train_round(0)
    return [site.state for site in sites]


def gpu_states(trainer: Trainer, recorded: bool) -> list[Tensors]:
    """With the same kernels: padded, replayed and all at once, or none of it."""
    if recorded:
        trainer.stepper = graph_stepper(trainer)
    states = rounds(trainer, noise_store(trainer.device), together=recorded)
    assert len(getattr(trainer.stepper, "lanes", [])) == (3 if recorded else 0)
    assert trainer.stepper.trouble is None
    return states


def graph_stepper(trainer: Trainer) -> GraphStepper:
    return GraphStepper(trainer.device, trainer.config.train.batch)


def difference(first: list[Tensors], second: list[Tensors]) -> float:
    """The largest of all values' differences, against 1 + the value."""
    return max(
        float(((other[name] - value).abs() / (1 + value.abs())).detach().max())
        for one, other in zip(first, second, strict=True)
        for name, value in one.items()
    )


STEPS = {"train.batch_size": 80, "train.local_epochs": 5, "train.reset_optimizer": True}


@needs_gpu
@pytest.mark.parametrize("method", NAMES)
def test_clients_in_lanes_are_the_clients_one_by_one(method: str) -> None:
    one_by_one, lanes = (
        gpu_states(smooth_trainer(method, FACTS, torch.device("cuda"), **STEPS), recorded)
        for recorded in (False, True)
    )
    assert difference(one_by_one, lanes) < 1e-4


@needs_gpu
@pytest.mark.usefixtures("double")
@pytest.mark.parametrize("method", NAMES)
def test_clients_in_lanes_are_so_in_double_precision(method: str) -> None:
    trainers = [make_trainer(method, FACTS, torch.device("cuda"), **STEPS) for _ in range(2)]
    for trainer in trainers:
        trainer.runner.kernels = False
    one_by_one, lanes = gpu_states(trainers[0], False), gpu_states(trainers[1], True)
    assert difference(one_by_one, lanes) < 1e-9


class Garbage:
    """A recorded graph in a reference cycle, as an earlier run leaves it behind."""

    def __init__(self) -> None:
        self.myself = self
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            torch.zeros(1 << 20, device="cuda").add_(1)


@needs_gpu
def test_what_an_earlier_run_left_behind_is_not_freed_within_a_recording() -> None:
    trainer = make_trainer("v4", FACTS, torch.device("cuda"), **STEPS)
    usual = gc.get_threshold()
    try:
        gc.disable()
        for _ in range(20):
            Garbage()
        gc.set_threshold(1)
        gc.enable()
        gpu_states(trainer, recorded=True)
    finally:
        gc.set_threshold(*usual)
        gc.enable()


class Reader(nn.Module):
    """An encoder that reads a number from the device, which no graph can hold."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(192, 8)

    def forward(self, x: Tensor) -> Tensor:
        features: Tensor = self.linear(x.flatten(1))
        return features * (2.0 if features.sum().item() > 1e30 else 1.0)


@needs_gpu
def test_an_encoder_that_no_graph_can_hold_trains_eagerly() -> None:
    device = torch.device("cuda")
    trainer = make_trainer("v7", FACTS, device, **{"train.batch_size": 16})
    trainer.stepper = graph_stepper(trainer)
    own = make_trainer("v7", FACTS, device, **{"train.batch_size": 16, "train.graphs": False})
    store = noise_store(device)
    results = []
    for each in (trainer, own):
        torch.manual_seed(0)
        each.network.encoder = Reader().to(device)
        each.network.prototypes = nn.Parameter(torch.randn(4, 8, device=device))
        each.target = torch.zeros(4, 8, device=device)
        each.runner.norms = {}
        results.append(rounds(each, store, together=True))
    assert trainer.stepper.trouble is not None
    assert difference(*results) < 1e-5
    torch.cuda.empty_cache()
    gpu_states(make_trainer("v4", FACTS, device, **STEPS), recorded=True)


class Dropping(nn.Sequential):
    def __init__(self) -> None:
        super().__init__(nn.Flatten(), nn.Linear(192, 8), nn.Dropout(0.5))


@needs_gpu
def test_dropout_draws_the_clients_own_numbers_whoever_runs_beside_it() -> None:
    device, store = torch.device("cuda"), noise_store(torch.device("cuda"))
    results = []
    for together in (True, False):
        trainer = make_trainer("v4", FACTS, device, **{"train.batch_size": 80})
        trainer.stepper = graph_stepper(trainer)
        torch.manual_seed(0)
        trainer.network.encoder = Dropping().to(device)
        trainer.network.prototypes = nn.Parameter(torch.randn(4, 8, device=device))
        trainer.runner.norms = {}
        results.append(rounds(trainer, store, together))
        assert trainer.stepper.trouble == "the encoder draws random numbers"
    assert difference(*results) == 0
