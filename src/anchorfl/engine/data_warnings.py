"""What a run says of its data before it begins, each thing once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from anchorfl.config import Config
from anchorfl.data import Dataset, Partition
from anchorfl.engine.events import Warned

FEW = 5


def data_warnings(dataset: Dataset, partition: Partition, config: Config) -> Iterator[Warned]:
    """Clients without a sample, classes without images or test images, or that no upload describes."""
    empty = [number for number, own in enumerate(partition.clients) if not len(own)]
    if empty:
        held = f"{len(partition.clients):,} clients hold"
        who = f"client {empty[0]} holds" if len(empty) == 1 else f"{named(empty)} of {held}"
        skipped = "it is skipped and has weight 0" if len(empty) == 1 else "they are skipped"
        yield Warned("empty-client", f"{who} no sample: {skipped}")
    train, test = images_by_class(dataset)
    missing = [dataset.class_names[label] for label in np.flatnonzero((train == 0) & (test == 0))]
    if missing:
        yield Warned("empty-class", f"no image at all of {named(missing)}: is a folder empty?")
    yield from untested_classes(dataset)
    table = partition.label_table(dataset.train.labels, dataset.facts.classes)
    yield from undescribed_classes(table, dataset.class_names, config)


def untested_classes(dataset: Dataset) -> Iterator[Warned]:
    """All that a real site is told of its own images: it need not hold every class of the task."""
    train, test = images_by_class(dataset)
    untested = [dataset.class_names[label] for label in np.flatnonzero((train > 0) & (test == 0))]
    if untested:
        them = "it" if len(untested) == 1 else "them"
        yield Warned(
            "untested-class", f"no test image of {named(untested)}: accuracy does not count {them}"
        )


def undescribed_classes(
    table: NDArray[np.int64], class_names: Sequence[str], config: Config
) -> Iterator[Warned]:
    """Classes of which no client, a row of the table, has enough samples for its upload to describe."""
    least = max(config.upload.min_count, 1) if config.needs else 1
    largest = table.max(axis=0)
    lost = [name for name, count in zip(class_names, largest, strict=True) if count < least]
    if lost:
        held = f"upload.min_count={least} samples" if least > 1 else "a sample"
        yield Warned(
            "undescribed-classes",
            f"no upload describes {named(lost)} (nobody has {held}):"
            " expect such images to come out as another class",
        )


def images_by_class(dataset: Dataset) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """To train on, and to test on."""
    classes = dataset.facts.classes
    train, test = (
        np.bincount(each.labels, minlength=classes) for each in (dataset.train, dataset.test)
    )
    return train, test


def named(things: Sequence[object]) -> str:
    """The first few, and how many more."""
    more = f" and {len(things) - FEW:,} more" if len(things) > FEW else ""
    return ", ".join(map(str, things[:FEW])) + more
