"""The data that a finished run was made with, found again: on other data figures mean nothing."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import torch

from anchorfl.data import Dataset, Shape, labels_hash, load_dataset, load_partition
from anchorfl.errors import UserError
from anchorfl.model import Source, folder_source, public_source, synthetic_source
from anchorfl.runs import Run

MOVED = "if the run's data moved, name its folder with data.root=DIR"


def data_of(run: Run, root: str | None = None) -> Dataset:
    """The run's data set, from `root` where it moved; refused where it is not what the run saw."""
    options = run.config.data if root is None else replace(run.config.data, root=root)
    try:
        dataset = load_dataset(options)
    except UserError as error:
        raise UserError(f"{error}; {MOVED}") from None
    other = difference(run, dataset)
    if other is not None:
        raise UserError(f"data.root={options.root}: {other}; {MOVED}")
    return dataset


def unlabelled(run: Run, dataset: Dataset, shape: Shape, folder: Path | None) -> Source:
    """Images to distill on: the user's; else the run's public share; else dead leaves."""
    if folder is not None:
        return folder_source(folder, shape)
    if run.config.partition.public:
        partition = load_partition(run.files.partition, dataset.name, dataset.train.labels)
        return public_source(torch.from_numpy(dataset.train.images[partition.public]))
    return synthetic_source(shape, run.config.seed)


def difference(run: Run, dataset: Dataset) -> str | None:
    """What of a data set is not as the run's records have it."""
    summary = run.summary
    if dataset.class_names != summary.class_names:
        return f"has the classes {shown(dataset.class_names)}, the run {shown(summary.class_names)}"
    facts = json.loads(json.dumps(asdict(dataset.facts)))
    if summary.images is not None and facts["shape"] != summary.images["shape"]:
        return f"has images of shape {facts['shape']}, the run {summary.images['shape']}"
    if run.files.partition.is_file():
        stored = json.loads(run.files.partition.read_text()).get("labels")
        if stored is not None and stored != labels_hash(dataset.train.labels):
            return "has other training labels than the run"
    matrix = next(iter((summary.confusion or {}).values()), None)
    if matrix is not None:
        counts = np.bincount(dataset.test.labels, minlength=len(dataset.class_names)).tolist()
        if counts != [sum(row) for row in matrix]:
            return "has other test labels than the run"
    return None


def shown(names: list[str] | None) -> str:
    listed = names or []
    return ", ".join(listed[:6]) + (f", ... ({len(listed)})" if len(listed) > 6 else "")
