import math
from collections import Counter
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from anchorfl.compute import Batch
from anchorfl.data import ImageStore, Shard, batch_count
from anchorfl.events import ClientRound
from anchorfl.prepare import new_task
from anchorfl.site import Site
from anchorfl.tensors import Tensors, section
from tests.conftest import CPU, FACTS, make_setup, make_site, make_trainer, tiny_split


@settings(deadline=None)
@given(samples=st.integers(1, 3000), batch_size=st.integers(1, 600))
def test_batches_are_near_equal_and_never_a_lone_sample(samples: int, batch_size: int) -> None:
    parts = torch.arange(samples).tensor_split(batch_count(samples, batch_size))
    sizes = [len(part) for part in parts]
    assert sum(sizes) == samples
    assert max(sizes) - min(sizes) <= 1
    assert min(sizes) > 1 or samples == 1
    assert max(sizes) <= max(batch_size, 3)
    if batch_size > 2 and samples > 1:
        assert len(sizes) == math.ceil(samples / batch_size)


@pytest.mark.parametrize(
    "own",
    [[0], [0, 4], list(range(7)), [0, 4, 8, 12]],
    ids=["one sample", "two of a class", "less than a batch", "a single class"],
)
@pytest.mark.parametrize("method", ["v4", "v7"])
def test_tiny_and_single_class_sites_train(store: ImageStore, own: list[int], method: str) -> None:
    site = make_site(make_trainer(method, **{"train.batch_size": 16}), 0, store, own)
    start = site.state["weights/prototypes"].detach().clone()
    event = site.train_round(0)
    assert event.samples == len(own)
    assert event.steps == 1
    assert math.isfinite(event.base_loss)
    upload = site.upload()
    assert all(torch.isfinite(value).all() for value in upload.weights.values())
    assert upload.class_counts.tolist() == [sum(i % 4 == k for i in own) for k in range(4)]
    assert not torch.equal(upload.prototypes, start)


def test_every_sample_counts_once_an_epoch(store: ImageStore, monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = make_trainer("v4", **{"train.batch_size": 5, "train.local_epochs": 2})
    seen: Counter[int] = Counter()
    keys = {store.images[k].numpy().tobytes(): k for k in range(len(store.images))}
    step = trainer.step

    def watched(state: Tensors, batch: Batch, *scalars: torch.Tensor) -> Tensors:
        seen.update(keys[image.numpy().tobytes()] for image in batch.images)
        return step(state, batch, *scalars)

    monkeypatch.setattr(trainer, "step", watched)
    own = list(range(3, 20))
    make_site(trainer, 0, store, own).train_round(0)
    assert seen == Counter(dict.fromkeys(own, 2))


def without_time(event: ClientRound) -> dict[str, object]:
    return {key: value for key, value in vars(event).items() if key != "seconds"}


def test_a_site_is_the_same_first_last_or_alone(store: ImageStore) -> None:
    owns = [list(range(9)), list(range(9, 20)), list(range(20, 24))]
    settings = {"train.batch_size": 4, "train.rounds": 2}

    def history(order: list[int], watched: int) -> list[dict[str, object]]:
        trainer = make_trainer("v7", **settings)
        sites = {k: make_site(trainer, k, store, owns[k]) for k in order}
        events = []
        for number in range(2):
            for k, site in sites.items():
                event = site.train_round(number)
                site.upload()
                if k == watched:
                    events.append(without_time(event))
        return events

    for watched in (0, 2):
        alone = history([watched], watched)
        assert history([0, 1, 2], watched) == alone
        assert history([2, 1, 0], watched) == alone


def test_momentum_is_kept_across_rounds_unless_reset_is_asked_for(store: ImageStore) -> None:
    ends = {}
    for reset in (False, True):
        trainer = make_trainer("v4", **{"train.rounds": 2, "train.reset_optimizer": reset})
        site = make_site(trainer, 0, store, list(range(12)))
        site.train_round(0)
        first = site.state["weights/prototypes"].detach().clone()
        site.train_round(1)
        ends[reset] = site.state["weights/prototypes"].detach() - first
    assert float(ends[False].norm()) > 1.3 * float(ends[True].norm())


def test_the_learning_rate_follows_its_schedule_over_the_whole_run(
    store: ImageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {"train.rounds": 2, "train.batch_size": 6, "train.schedule": "linear", "train.lr": 1.0}
    trainer = make_trainer("v4", **settings)
    rates: list[float] = []
    step = trainer.step

    def watched(state: Tensors, batch: Batch, lr: torch.Tensor, anneal: torch.Tensor) -> Tensors:
        rates.append(float(lr))
        return step(state, batch, lr, anneal)

    monkeypatch.setattr(trainer, "step", watched)
    site = make_site(trainer, 0, store, list(range(12)))
    for number in range(2):
        site.train_round(number)
    assert rates == pytest.approx([1.0, 0.75, 0.5, 0.25])


def test_an_upload_holds_no_second_copy_of_the_parameters_and_statistics_of_its_own(
    store: ImageStore,
) -> None:
    site = make_site(make_trainer("v4"), 0, store, list(range(12)))
    site.train_round(0)
    upload = site.upload()
    for name, value in site.state.items():
        if name.startswith("weights/"):
            assert upload.weights[name.removeprefix("weights/")].data_ptr() == value.data_ptr()
    own = site.state["buffers/encoder.1.running_mean"]
    assert upload.weights["encoder.1.running_mean"].data_ptr() != own.data_ptr()


NOISY = """
from torch import nn


def noisy(shape):
    backbone = nn.Conv2d(shape[0], 8, 3, bias=False)
    backbone.requires_grad_(False)
    return nn.Sequential(backbone, nn.BatchNorm2d(8), nn.Dropout(0.5), nn.Flatten(), nn.Linear(288, 16))
"""


def test_an_encoder_of_ones_own_may_draw_and_may_hold_frozen_weights(
    store: ImageStore, tmp_path: Path
) -> None:
    (tmp_path / "own.py").write_text(NOISY)
    trainer = make_trainer("v4", **{"model.name": f"{tmp_path}/own.py:noisy", "train.rounds": 1})
    results = []
    for others in (0, 2):
        for other in range(others):
            make_site(trainer, 5 + other, store, [1, 2, 3]).train_round(0)
            torch.rand(7)
        site = make_site(trainer, 0, store, list(range(12)))
        results.append((without_time(site.train_round(0)), site.upload()))
    (event, upload), (again, same) = results
    assert event == again
    assert all(torch.equal(upload.weights[name], same.weights[name]) for name in upload.weights)
    start = trainer.network.state_dict()
    assert torch.equal(upload.weights["encoder.0.weight"], start["encoder.0.weight"])
    assert not torch.equal(upload.weights["encoder.4.weight"], start["encoder.4.weight"])


def test_annealing_follows_the_whole_run_and_never_restarts(store: ImageStore) -> None:
    settings = {"train.rounds": 3, "train.local_epochs": 2, "align.schedule": "linear"}
    site = make_site(make_trainer("v7", **settings), 0, store, list(range(12)))
    events = [site.train_round(number) for number in range(3)]
    assert [event.anneal for event in events] == pytest.approx([5 / 6, 3 / 6, 1 / 6])
    assert [event.lambda_effective for event in events] == pytest.approx([25 / 6, 15 / 6, 5 / 6])


def test_losses_are_means_over_samples_not_over_batches(
    store: ImageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer = make_trainer("v4", **{"train.batch_size": 4})
    losses: list[tuple[int, float]] = []
    step = trainer.step

    def watched(state: Tensors, batch: Batch, *scalars: torch.Tensor) -> Tensors:
        readings = step(state, batch, *scalars)
        losses.append((len(batch.labels), float(readings["base_loss"])))
        return readings

    monkeypatch.setattr(trainer, "step", watched)
    event = make_site(trainer, 0, store, list(range(11))).train_round(0)
    assert sorted(size for size, _ in losses) == [3, 4, 4]
    assert event.base_loss == pytest.approx(sum(size * loss for size, loss in losses) / 11, rel=1e-5)


def test_draws_differ_between_epochs_and_sites_but_not_between_runs(
    store: ImageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer = make_trainer("v4", **{"train.rounds": 2})
    drawn: list[torch.Tensor] = []
    step = trainer.step

    def watched(state: Tensors, batch: Batch, *scalars: torch.Tensor) -> Tensors:
        drawn.append(batch.draws.clone())
        return step(state, batch, *scalars)

    monkeypatch.setattr(trainer, "step", watched)
    for number in (0, 1, 0):
        site = make_site(trainer, number, store, list(range(12)))
        site.train_round(0)
        site.train_round(1)
    first, later, other, _, again, _ = drawn
    assert torch.equal(first, again)
    assert not torch.equal(first, later)
    assert not torch.equal(first, other)
    assert not torch.equal(first[0], first[1])


def test_all_sites_start_from_the_tasks_weights_and_prototypes(store: ImageStore) -> None:
    trainer = make_trainer("v7")
    task = new_task(trainer.config, FACTS)
    for number in range(2):
        site = make_site(trainer, number, store, [number, number + 4])
        state = {**section(site.state, "weights"), **section(site.state, "buffers")}
        assert state.keys() == task.weights.keys()
        assert all(torch.equal(state[name], task.weights[name]) for name in state)


def test_the_upload_carries_the_statistics_that_were_asked_for(store: ImageStore) -> None:
    uploads = {}
    for kind in ("running", "recomputed"):
        site = make_site(make_trainer("v4", **{"upload.batchnorm": kind}), 0, store, list(range(12)))
        site.train_round(0)
        uploads[kind] = site.upload().weights["encoder.1.running_mean"]
    running = site.state["buffers/encoder.1.running_mean"]
    assert torch.equal(uploads["running"], running)
    assert not torch.allclose(uploads["recomputed"], running, atol=1e-3)


def test_prototype_norms_are_separated_by_what_the_site_holds(store: ImageStore) -> None:
    site = make_site(make_trainer("v4"), 0, store, [0, 4, 8, 1])  # classes 0 and 1
    with torch.no_grad():
        for label, norm in enumerate((2.0, 4.0, 5.0, 7.0)):
            row = site.state["weights/prototypes"][label]
            row.mul_(norm / row.norm())
    norms = {name: value.item() for name, value in site.prototype_norms().items()}
    assert norms["prototype_norm_seen"] == pytest.approx(3.0, rel=1e-5)
    assert norms["prototype_norm_unseen"] == pytest.approx(6.0, rel=1e-5)
    everything = make_site(make_trainer("v4"), 0, store, list(range(8)))
    assert "prototype_norm_unseen" not in everything.prototype_norms()


def test_a_site_of_a_task_trains_as_one_that_shares_its_trainer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("anchorfl.site.site.choose_device", lambda name: CPU)
    settings = {"train.rounds": 3, "fusion": "class-mean"}
    split = tiny_split(12)
    alone = Site(make_setup("v12-gamma", **settings).task, split, name="2")
    shared = Site(make_trainer("v12-gamma", **settings), Shard.whole(split, CPU), name="2", number=7)
    events, again = list(alone.train()), list(shared.train())
    assert [event.round for event in events] == [0, 1, 2]
    for one, other in zip(events, again, strict=True):
        assert without_time(other) == {**without_time(one), "client": 7}
    assert alone.upload().to_bytes() == shared.upload().to_bytes()


def test_a_later_task_is_trained_from_its_round_and_its_weights() -> None:
    task = make_setup("v4", **{"train.rounds": 3}).task
    weights = {name: torch.zeros_like(value) for name, value in task.weights.items()}
    site = Site(task.later(2, weights, None), tiny_split(12), name="north")
    assert not site.state["weights/prototypes"].any()
    assert [event.round for event in site.train()] == [2]
    assert site.upload().task == task.hash


def test_a_site_aligns_to_the_target_of_a_later_task() -> None:
    """FedProto's class means go round, and weights stay where they are."""
    task, norms = make_setup("fedproto", **{"train.rounds": 2}).task, []
    assert task.target is not None
    first = task.target.clone()
    for length in (0.0, 100.0):
        site = Site(task, tiny_split(12), name="north")
        site.train_round(0)
        before = {name: value.clone() for name, value in section(site.state, "weights").items()}
        site.receive(task.later(1, {}, torch.full_like(first, length)))
        assert all(torch.equal(site.state[f"weights/{name}"], before[name]) for name in before)
        norms.append(site.train_round(1).align_loss)
    assert norms[1] > 100 * norms[0]
    assert torch.equal(task.target, first)
