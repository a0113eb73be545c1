import json
import math
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anchorfl.config import PartitionOptions
from anchorfl.data import Partition, draw_partition, load_partition
from anchorfl.errors import UserError
from anchorfl.objective import label_entropy
from anchorfl.objective.balance.entropy import entropy_lambda
from anchorfl.randomness import numpy_generator


def labels_of(counts: list[int]) -> np.ndarray:
    return np.random.default_rng(0).permutation(np.repeat(np.arange(len(counts)), counts))


many_labels = st.lists(st.integers(1, 40), min_size=2, max_size=8).map(labels_of)
seeds = st.integers(0, 2**32)


def everything(partition: Partition) -> list[int]:
    parts = [partition.public, partition.validation, *partition.clients]
    return sorted(np.concatenate(parts).tolist())


@settings(max_examples=60, deadline=None)
@given(
    labels=many_labels,
    kind=st.sampled_from(["dirichlet", "iid"]),
    alpha=st.floats(1e-3, 100),
    clients=st.integers(1, 6),
    seed=seeds,
    public=st.sampled_from([0.0, 0.1, 0.3]),
    validation=st.sampled_from([0.0, 0.2]),
)
def test_a_disjoint_draw_covers_every_sample_once(
    labels: np.ndarray,
    kind: str,
    alpha: float,
    clients: int,
    seed: int,
    public: float,
    validation: float,
) -> None:
    options = PartitionOptions(kind=kind, alpha=alpha, clients=clients, seed=seed, public=public)
    if clients > len(labels) - round(public * len(labels)) - round(validation * len(labels)):
        with pytest.raises(UserError, match="must be at most"):
            draw_partition(labels, options, validation, "set")
        return
    partition = draw_partition(labels, options, validation, "set")
    assert len(partition.clients) == clients
    assert everything(partition) == list(range(len(labels)))
    assert len(partition.public) == round(public * len(labels))
    assert len(partition.validation) == round(validation * len(labels))
    assert partition.hash == draw_partition(labels, options, validation, "set").hash
    if kind == "iid":
        sizes = [len(own) for own in partition.clients]
        assert max(sizes) - min(sizes) <= 1


@settings(max_examples=40, deadline=None)
@given(labels=many_labels, alpha=st.floats(0.01, 10), clients=st.integers(1, 5), seed=seeds)
def test_the_overlapping_draw_follows_its_formula(
    labels: np.ndarray, alpha: float, clients: int, seed: int
) -> None:
    clients = min(clients, len(labels))
    options = PartitionOptions(kind="dirichlet-overlap", alpha=alpha, clients=clients, seed=seed)
    partition = draw_partition(labels, options, 0.0, "set")
    replay = numpy_generator(seed, "partition")
    replay.permutation(len(labels))
    table = partition.label_table(labels, labels.max() + 1)
    for label in range(labels.max() + 1):
        members = np.flatnonzero(labels == label)
        shares = replay.dirichlet(np.full(clients, alpha))
        for client, share in enumerate(shares):
            wanted = min(len(members), round(10 * len(members) * share))
            assert table[client, label] == wanted
            replay.choice(members, wanted, replace=False)
    assert all(len(set(own)) == len(own) for own in partition.clients)


@settings(max_examples=40, deadline=None)
@given(
    counts=st.lists(st.integers(20, 40), min_size=2, max_size=10),
    clients=st.integers(1, 12),
    wanted=st.integers(1, 10),
    seed=seeds,
)
def test_shards_give_every_client_its_number_of_labels(
    counts: list[int], clients: int, wanted: int, seed: int
) -> None:
    labels = labels_of(counts)
    options = PartitionOptions(kind="shards", clients=clients, labels=wanted, seed=seed)
    if not math.ceil(len(counts) / clients) <= wanted <= len(counts):
        with pytest.raises(UserError, match=r"partition\.labels"):
            draw_partition(labels, options, 0.0, "set")
        return
    partition = draw_partition(labels, options, 0.0, "set")
    table = partition.label_table(labels, len(counts))
    assert ((table > 0).sum(axis=1) == wanted).all()
    assert everything(partition) == list(range(len(labels)))


def test_a_small_alpha_skews_and_a_large_one_does_not() -> None:
    labels = labels_of([200] * 10)

    def mean_entropy(alpha: float) -> float:
        options = PartitionOptions(alpha=alpha, clients=5, seed=1)
        table = draw_partition(labels, options, 0.0, "set").label_table(labels, 10)
        return float(np.mean([label_entropy(row) for row in table]))

    assert mean_entropy(0.05) < 2.2 < 3.2 < mean_entropy(1000)


def test_entropy_against_hand_computed_cases() -> None:
    assert label_entropy(np.array([2, 1, 1, 0])) == pytest.approx(1.5)
    assert label_entropy(np.array([5, 0])) == 0
    assert label_entropy(np.array([0, 0])) == 0
    assert label_entropy(np.full(10, 7)) == pytest.approx(math.log2(10))


def test_a_saved_partition_is_the_same_partition(tmp_path: Path) -> None:
    labels, path = labels_of([20] * 4), tmp_path / "partition.json"
    drawn = draw_partition(labels, PartitionOptions(seed=2, public=0.1), 0.1, "set")
    drawn.save(path, "set", labels)
    options = PartitionOptions(kind="file", file=str(path))
    loaded = draw_partition(labels, options, 0.0, "set")
    assert loaded.hash == drawn.hash
    assert all(map(np.array_equal, loaded.clients, drawn.clients))


def test_a_partition_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    labels, path = labels_of([20] * 4), tmp_path / "partition.json"
    draw_partition(labels, PartitionOptions(seed=2), 0.0, "set").save(path, "set", labels)
    with pytest.raises(UserError, match="was drawn on set with 80"):
        load_partition(path, "other", labels)
    with pytest.raises(UserError, match="not on this set with 80"):
        load_partition(path, "set", np.roll(labels, 1))
    content = json.loads(path.read_text())
    path.write_text(json.dumps({**content, "clients": []}))
    with pytest.raises(UserError, match="gives no client a sample"):
        load_partition(path, "set", labels)
    content["clients"][0].append(10**6)
    path.write_text(json.dumps(content))
    with pytest.raises(UserError, match="do not match its hash"):
        load_partition(path, "set", labels)
    path.write_text(json.dumps({**content, "public": [10**30]}))
    with pytest.raises(UserError, match=r"is not a partition\.json"):
        load_partition(path, "set", labels)
    path.write_text("[1, 2")
    with pytest.raises(UserError, match=r"is not a partition\.json"):
        load_partition(path, "set", labels)
    with pytest.raises(UserError, match=r"name the file with partition\.file"):
        draw_partition(labels, PartitionOptions(kind="file"), 0.0, "set")


def test_shares_that_leave_nothing_are_told_by_their_keys() -> None:
    labels = labels_of([20] * 4)
    with pytest.raises(UserError, match=r"data\.validation=0\.6 and partition\.public=0\.6"):
        draw_partition(labels, PartitionOptions(seed=0, public=0.6), 0.6, "set")
    huge = PartitionOptions(kind="dirichlet-overlap", alpha=1e308, clients=80, seed=0)
    with pytest.raises(UserError, match=r"partition\.alpha=1e\+308"):
        draw_partition(labels, huge, 0.0, "set")


def by_5000() -> np.ndarray:
    """Ten classes of 5,000, in an order that no draw should depend on."""
    return np.random.default_rng(0).permutation(np.repeat(np.arange(10), 5000))


def test_the_diarys_draw_gives_the_entropies_and_lambdas_of_its_table() -> None:
    """Diary 001, table 1: they depend on the class sizes alone, so the real labels are not needed."""
    labels = by_5000()
    options = PartitionOptions(kind="diary", alpha=0.05, clients=5, seed=1)
    table = draw_partition(labels, options, 0.0, "cifar10").label_table(labels, 10).tolist()
    assert [len(row) for row in table] == [10] * 5
    assert [f"{label_entropy(row):.4f}" for row in table] == [
        "1.9079",
        "1.7997",
        "0.6091",
        "1.1689",
        "1.7245",
    ]
    lambdas = [f"{entropy_lambda(row, 0.1, 10.0):.4f}" for row in table]
    assert lambdas == ["5.7859", "5.4634", "1.9152", "3.5837", "5.2395"]
    shares = [f"{label_entropy(row) / np.log2(10):.4f}" for row in table]
    assert shares == ["0.5743", "0.5418", "0.1834", "0.3519", "0.5191"]


def test_the_diarys_disjoint_draw_gives_every_sample_once_and_its_overlapping_one_more_often() -> None:
    labels = by_5000()
    for kind, alpha in (("diary", 0.05), ("diary", 1.0), ("diary-overlap", 0.5)):
        options = PartitionOptions(kind=kind, alpha=alpha, clients=7, seed=3)
        partition = draw_partition(labels, options, 0.0, "any")
        owned = np.concatenate(partition.clients)
        if kind == "diary":
            assert np.array_equal(np.sort(owned), np.arange(50_000))
        else:
            assert len(owned) > 1.5 * len(np.unique(owned))
        again = draw_partition(labels, options, 0.0, "any")
        assert again.hash == partition.hash
        other = draw_partition(labels, replace(options, seed=4), 0.0, "any")
        assert other.hash != partition.hash


def test_the_overlapping_draw_takes_ten_times_class_zeros_size_of_every_class() -> None:
    """A replay of its words with the generators seeded in the open, on classes of unequal size."""
    labels = np.repeat(np.arange(3), (40, 60, 20))
    options = PartitionOptions(kind="diary-overlap", alpha=0.3, clients=4, seed=9)
    got = draw_partition(labels, options, 0.0, "any")
    shuffler, numbers = random.Random(9), np.random.RandomState(9)
    wanted: list[list[int]] = [[] for _ in range(4)]
    for label, size in enumerate((40, 60, 20)):
        members = [k for k in range(120) if labels[k] == label]
        shuffler.shuffle(members)
        shares = numbers.dirichlet([0.3] * 4)
        for k in range(4):
            wanted[k] += members[: min(size, round(10 * 40 * shares[k]))]
            shuffler.shuffle(members)
    assert [own.tolist() for own in got.clients] == [sorted(own) for own in wanted]


def test_scrambled_indices_have_lost_the_skew_and_a_public_share_belongs_to_nobody() -> None:
    labels = by_5000()
    skewed = PartitionOptions(kind="diary-overlap", alpha=0.05, clients=5, seed=1, public=0.1)
    partition = draw_partition(labels, skewed, 0.0, "any")
    assert len(partition.public) == 5000
    assert not set(partition.public) & set(np.concatenate(partition.clients))
    scrambled = draw_partition(labels, replace(skewed, kind="diary-scrambled"), 0.0, "any")
    assert len(scrambled.public) == 0
    entropies = {
        name: [label_entropy(row) for row in each.label_table(labels, 10).tolist()]
        for name, each in (("skewed", partition), ("scrambled", scrambled))
    }
    assert min(entropies["scrambled"]) > 3.3
    assert max(entropies["skewed"]) < 2.5


def test_the_diarys_draws_hold_nothing_out() -> None:
    with pytest.raises(UserError, match=r"data\.validation=0\.2: partition\.kind=diary holds nothing"):
        draw_partition(by_5000(), PartitionOptions(kind="diary", seed=1), 0.2, "any")
