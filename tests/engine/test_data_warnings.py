"""What a run says of its data before it begins."""

from dataclasses import replace

import numpy as np
import pytest

from anchorfl.config import Config, DataOptions
from anchorfl.data import Dataset, Partition, load_dataset
from anchorfl.engine.data_warnings import data_warnings
from anchorfl.settings import resolve

NOBODY = np.array([], np.int64)


def said(dataset: Dataset, clients: list[list[int]], config: Config) -> dict[str, str]:
    partition = Partition([np.array(own, np.int64) for own in clients], NOBODY, NOBODY)
    found = list(data_warnings(dataset, partition, config))
    assert len({each.about for each in found}) == len(found)
    return {each.about: each.message for each in found}


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
