"""What a run says of its data before it begins, each thing once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from anchorfl.config import Config
from anchorfl.data import Dataset, Partition, batch_count
from anchorfl.events import Warned
from anchorfl.methods import METHODS

FEW = 5
SLOW, MANY = "resnet18", 2_000
"""An encoder, and images per epoch that are many for it on a CPU."""


def warnings_before(dataset: Dataset, partition: Partition, config: Config) -> Iterator[Warned]:
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
    if METHODS.get(config.method).trains:
        yield from unfit_training([len(own) for own in partition.clients], config)


def unfit_training(sizes: Sequence[int], config: Config) -> Iterator[Warned]:
    """Rounds of one step, in which little is learned; an encoder that is slow without a GPU."""
    train, held = config.train, [size for size in sizes if size]
    single = [size for size in held if batch_count(size, train.batch) * train.local_epochs == 1]
    if 2 * len(single) > len(held):
        yield Warned(
            "one-step",
            f"a round is a single step for {len(single):,} of {len(held):,} clients:"
            f" lower train.batch_size={train.batch}",
        )
    images = sum(size for number, size in enumerate(sizes) if config.model.name_of(number) == SLOW)
    if images > MANY and config.general.device == "cpu" and not config.model.freeze:
        yield Warned(
            "slow-encoder",
            f"{SLOW} trains on a CPU, on {images:,} images in every epoch, which is slow:"
            " model.name=small-cnn is faster",
        )


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
    least = config.upload.min_count if config.needs else 1
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
