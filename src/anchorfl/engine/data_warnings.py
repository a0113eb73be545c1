"""What a run says of its data before it begins, each thing once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

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
    train, test = (
        np.bincount(split.labels, minlength=dataset.facts.classes)
        for split in (dataset.train, dataset.test)
    )
    missing = [dataset.class_names[label] for label in np.flatnonzero((train == 0) & (test == 0))]
    if missing:
        yield Warned("empty-class", f"no image at all of {named(missing)}: is a folder empty?")
    untested = [dataset.class_names[label] for label in np.flatnonzero((train > 0) & (test == 0))]
    if untested:
        yield Warned(
            "untested-class", f"no test image of {named(untested)}: accuracy does not count them"
        )
    if config.needs:
        largest = partition.label_table(dataset.train.labels, dataset.facts.classes).max(axis=0)
        undescribed = int((largest < config.upload.min_count).sum())
        if undescribed:
            classes = f"{undescribed} of {dataset.facts.classes} classes have no client with"
            least = f"upload.min_count={config.upload.min_count} samples"
            yield Warned("undescribed-classes", f"{classes} {least}: no upload describes them")


def named(things: Sequence[object]) -> str:
    """The first few, and how many more."""
    more = f" and {len(things) - FEW:,} more" if len(things) > FEW else ""
    return ", ".join(map(str, things[:FEW])) + more
