"""What a run says of its data before it begins."""

from dataclasses import replace

import numpy as np
import pytest

from anchorfl.config import Config, DataOptions
from anchorfl.data import Dataset, Partition, load_dataset
from anchorfl.loop.data_warnings import warnings_before
from anchorfl.settings import resolve

NOBODY = np.array([], np.int64)


def said(dataset: Dataset, clients: list[list[int]], config: Config) -> dict[str, str]:
    partition = Partition([np.array(own, np.int64) for own in clients], NOBODY, NOBODY)
    found = list(warnings_before(dataset, partition, config))
    assert len({each.about for each in found}) == len(found)
    return {each.about: each.message for each in found}


ONE_CLASS = {"fusion": "feature-mean", "train.batch_size": 64}


@pytest.mark.parametrize(
    ("sizes", "words", "warned"),
    [
        ([100, 60, 0, 60], {}, "2 of 3 clients"),
        ([100, 60, 0], {}, None),
        ([60, 60], {"train.local_epochs": 2}, None),
        ([1000, 1000], {"train.batch_size": 1000}, "2 of 2 clients"),
    ],
)
def test_rounds_of_a_single_step_name_the_batch_size(
    sizes: list[int], words: dict[str, object], warned: str | None
) -> None:
    dataset, config = load_dataset(DataOptions()), resolve("v4", {**ONE_CLASS, **words})
    found = said(dataset, [list(range(size)) for size in sizes], config).get("one-step")
    if warned is None:
        assert found is None
    else:
        key = f"lower train.batch_size={config.train.batch}"
        assert found == f"a round is a single step for {warned}: {key}"
    none = resolve("none", {"train.batch_size": 1000})
    assert "one-step" not in said(dataset, [list(range(size)) for size in sizes], none)


@pytest.mark.parametrize(
    ("clients", "words", "warned"),
    [
        (2, {}, True),
        (1, {}, False),
        (2, {"device": "cuda"}, False),
        (2, {"model.name": "small-cnn"}, False),
        (2, {"model.freeze": True}, False),
    ],
)
def test_a_large_encoder_on_a_cpu_is_said_to_be_slow(
    clients: int, words: dict[str, object], warned: bool
) -> None:
    dataset = load_dataset(DataOptions())
    settings = {**ONE_CLASS, "model.name": "resnet18", "device": "cpu", **words}
    everything = list(range(1442))
    found = said(dataset, [everything] * clients, resolve("v4", settings))
    assert found.keys() == ({"slow-encoder"} if warned else set())
    if warned:
        assert "resnet18 trains on a CPU, on 2,884 images" in found["slow-encoder"]
        assert "model.name=small-cnn" in found["slow-encoder"]


def test_empty_clients_are_one_line() -> None:
    dataset, config = load_dataset(DataOptions()), resolve("v4", {"fusion": "feature-mean"})
    everything = list(range(len(dataset.train.labels)))
    assert said(dataset, [everything], config) == {}
    some = said(dataset, [everything, [], []], config)["empty-client"]
    assert some == "1, 2 of 3 clients hold no sample: they are skipped"
    many = said(dataset, [everything, *[[]] * 9], config)["empty-client"]
    assert many.startswith("1, 2, 3, 4, 5 and 4 more of 10 clients")


def test_classes_without_images_or_test_images_are_named() -> None:
    dataset, config = load_dataset(DataOptions()), resolve("v4", {"fusion": "feature-mean"})
    test, train = dataset.test, dataset.train
    without = {label: test.labels != label for label in (3, 7)}
    test = replace(
        test, images=test.images[without[3] & without[7]], labels=test.labels[without[3] & without[7]]
    )
    train = replace(
        train, images=train.images[train.labels != 7], labels=train.labels[train.labels != 7]
    )
    found = said(replace(dataset, train=train, test=test), [list(range(len(train.labels)))], config)
    assert "no image at all of 7" in found["empty-class"]
    assert found["untested-class"] == "no test image of 3: accuracy does not count it"


@pytest.mark.parametrize(
    ("fusion", "least"), [("feature-mean", "a sample"), ("class-mean", "upload.min_count=3")]
)
def test_classes_that_no_client_holds_enough_of_are_named(fusion: str, least: str) -> None:
    dataset = load_dataset(DataOptions())
    config = resolve("v4", {"fusion": fusion, "upload.min_count": 3})
    labels = dataset.train.labels
    enough = np.flatnonzero(labels != 4).tolist()
    without = said(dataset, [enough], config)["undescribed-classes"]
    assert without.startswith(f"no upload describes 4 (nobody has {least}")
    few = np.flatnonzero(labels == 4)[:2].tolist()
    assert ("undescribed-classes" in said(dataset, [enough, few], config)) == (fusion == "class-mean")
