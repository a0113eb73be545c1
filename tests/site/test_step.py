from dataclasses import dataclass, replace

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from anchorfl.compute import Batch
from anchorfl.data import ImageStore
from anchorfl.events import as_record
from anchorfl.objective import Balance, ClientFacts, Losses
from anchorfl.site import Trainer
from anchorfl.tensors import Tensors
from tests.conftest import make_site, make_trainer

COUNTS = ClientFacts(torch.tensor([6, 6, 6, 6]), batches=1)


def make_batch(trainer: Trainer, store: ImageStore, samples: int = 10, padding: int = 0) -> Batch:
    """The same samples and draws, whatever is padded behind them."""
    index = torch.cat([torch.arange(samples), torch.arange(padding)])
    draws = trainer.augmentation.draw(2 * samples, torch.Generator().manual_seed(3))
    draws = draws.view(2, samples, -1)
    draws = torch.cat([draws, draws[:, :padding]], dim=1)
    weights = torch.tensor([1.0] * samples + [0.0] * padding) if padding else None
    return Batch(*store.take(index), draws, weights)


def test_a_padded_batch_has_the_loss_and_gradient_of_the_unpadded_one(store: ImageStore) -> None:
    trainer = make_trainer()
    results = []
    for padding in (0, 5):
        state = trainer.initial_state(COUNTS)
        weights = {name: value for name, value in state.items() if name.startswith("weights/")}
        base, align, _ = trainer.losses(state, make_batch(trainer, store, padding=padding))
        gradients = torch.autograd.grad(base + align, list(weights.values()))
        buffers = [value for name, value in state.items() if name.startswith("buffers/")]
        results.append([base, align, *gradients, *buffers])
    for plain, padded in zip(*results, strict=True):
        torch.testing.assert_close(plain, padded, atol=2e-5, rtol=2e-4)


def test_a_step_is_one_of_torch_sgd_with_clipping(store: ImageStore) -> None:
    trainer = make_trainer(**{"train.weight_decay": 0.01, "train.clip_norm": 0.5})
    state = trainer.initial_state(COUNTS)
    reference = trainer.initial_state(COUNTS)
    trained = {name: reference[name] for name in reference if name.startswith("weights/")}
    optimizer = torch.optim.SGD(trained.values(), lr=0.05, momentum=0.9, weight_decay=0.01)
    batch, one = make_batch(trainer, store), torch.tensor(1.0)
    for _ in range(3):
        readings = trainer.step(state, batch, torch.tensor(0.05), one)
        optimizer.zero_grad()
        base, align, _ = trainer.losses(reference, batch)
        (base + 5.0 * align).backward()
        norm = torch.nn.utils.clip_grad_norm_(trained.values(), 0.5)
        optimizer.step()
        assert float(readings["clip_factor"]) == pytest.approx(float(min(1.0, 0.5 / norm)), rel=1e-4)
        assert float(readings["base_loss"]) == pytest.approx(base.item(), rel=1e-4)
    for name, value in trained.items():
        torch.testing.assert_close(state[name], value, atol=1e-6, rtol=1e-4)
    assert int(state["steps"]) == 3


def test_v4_is_not_aligned_and_v7_pulls_prototypes_to_anchors(store: ImageStore) -> None:
    distances = {}
    for method in ("v4", "v7"):
        strength = {"align.lambda": 50.0} if method == "v7" else {}
        trainer = make_trainer(method, **{"train.clip_norm": 0, **strength})
        state = trainer.initial_state(COUNTS)
        for _ in range(10):
            trainer.step(state, make_batch(trainer, store), torch.tensor(0.05), torch.tensor(1.0))
        anchors = make_trainer("v7").target
        assert anchors is not None
        distances[method] = (state["weights/prototypes"] - anchors).square().mean().item()
    assert distances["v7"] < 0.5 * distances["v4"]


def test_a_balance_may_keep_constants_and_report_what_it_likes(store: ImageStore) -> None:
    @dataclass(frozen=True)
    class Own(Balance):
        def init(self, facts: ClientFacts) -> Tensors:
            constant = facts.class_counts.sum()
            log = torch.zeros((), requires_grad=True)
            return {"samples": constant, "steps": torch.zeros(()), "log": log}

        def loss(
            self, losses: Losses, state: Tensors, anneal: torch.Tensor
        ) -> tuple[torch.Tensor, Tensors]:
            loss = losses.base + state["log"].exp() * losses.align
            return loss, {"steps": state["steps"] + 1}

        def readings(self, losses: Losses, state: Tensors, anneal: torch.Tensor) -> Tensors:
            return {"samples_seen": state["samples"], "last_step": state["steps"]}

    trainer = make_trainer()
    trainer.config = replace(trainer.config, align=Own())
    site = make_site(trainer, 0, store, range(12))
    event = site.train_round(0)
    assert as_record(event)["samples_seen"] == 12
    assert as_record(event)["last_step"] == site.batches
    assert site.state["balance/samples"].item() == 12
    assert site.state["balance/log"].item() != 0


def test_recomputed_statistics_are_those_of_the_images_and_leave_the_state(store: ImageStore) -> None:
    trainer = make_trainer()
    state = trainer.initial_state(COUNTS)
    before = state["buffers/encoder.1.running_mean"].clone()
    images = store.images[:12]
    buffers = trainer.recomputed_statistics(state, [images[:6], images[6:]])
    normalised = (images.float() / 255 - 0.5) / 0.25
    first = trainer.network.encoder[0](normalised)  # type: ignore[index]
    torch.testing.assert_close(buffers["encoder.1.running_mean"], first.mean(dim=(0, 2, 3)))
    assert torch.equal(state["buffers/encoder.1.running_mean"], before)


def test_training_sees_two_different_augmented_views(
    store: ImageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer = make_trainer("v4")
    seen: list[torch.Tensor] = []
    runner = trainer.runner
    encode = runner.encode
    monkeypatch.setattr(runner, "encode", lambda w, images: seen.append(images) or encode(w, images))
    batch = make_batch(trainer, store)
    trainer.step(trainer.initial_state(COUNTS), batch, torch.tensor(0.1), torch.tensor(1.0))
    first, second = seen[0].chunk(2)
    plain = batch.images.float() / 255
    assert all(not torch.allclose(a, b, atol=0.02) for a, b in [(first, second), (first, plain)])


@pytest.mark.parametrize("flip", [True, False])
def test_data_flip_reaches_the_augmentation(flip: bool) -> None:
    assert make_trainer("v4", **{"data.flip": flip}).augmentation.flip == (0.5 if flip else 0.0)


def test_data_crop_reaches_the_augmentation() -> None:
    assert make_trainer("v4", **{"data.crop": 0.7}).augmentation.area == (0.7, 1.0)


def test_no_number_is_read_from_the_device_while_a_round_is_set_going(store: ImageStore) -> None:
    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
            assert not any(
                word in str(func) for word in ("_local_scalar_dense", "nonzero", "equal.default")
            )
            return func(*args, **(kwargs or {}))

    for method in ("v4", "v7"):
        site = make_site(make_trainer(method), 0, store, range(20))
        with Watch():
            site.start_round(0, lambda samples: None)
