"""The tables of docs/reference.md on files: sweeps, and what a run's folder holds, field by field.

Names and types come from the code; a field without a meaning here, or a meaning without a field, is
an error.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import fields
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from benchmarks.tables.figures import TABLES, Row, table
from benchmarks.tables.reference import cells, code

from anchorfl.data import Partition
from anchorfl.events import ClientRound, EpochEnded, RoundEnded, Warned
from anchorfl.runs import Summary
from anchorfl.sweep.plan import KEYS, TRIALS
from anchorfl.sweep.search import RANGE_KEYS

SWEEP = {
    "settings": "for every run, as `anchorfl run` takes them, `method` among them",
    "list": "alternatives: a mapping of settings each; `name` in it names its folder",
    "grid": "keys with lists of values: every combination, for each alternative",
    "search": "instead of list and grid: see below",
    "at_once": "runs at the same time; unset: one per core, two on a GPU",
    "out": "folder of the sweep; unset: `runs/` and the file's name",
    "baseline": "method that the comparison subtracts, paired by seed",
}
RANGE = {
    "low": "smallest value",
    "high": "largest value; whole numbers where both ends are",
    "log": "true: drawn by its logarithm",
    "step": "distance from one value to the next",
}
PARTITION = {
    "dataset": "the name of the data set it was drawn on",
    "samples": "how many training samples that has",
    "labels": "SHA-256 of the training labels as little-endian 64-bit numbers",
    "hash": "SHA-256 over `validation`, `public` and each client in turn: the length, then the indices",
    "clients": "a list per client of indices into the training data, from 0",
    "public": "indices that the server may look at",
    "validation": "indices held out to choose settings on",
}
CLIENT = {
    "round": "from 0",
    "client": "from 0",
    "samples": "that the client trains on",
    "steps": "of its optimizer",
    "base_loss": "B, mean over the steps, weighted by samples",
    "clip_factor": "what clipping left of the gradient, mean; 1 is all of it",
    "anneal": "the factor s(p) at the end of the round",
    "seconds": "of training",
    "align_loss": "A, mean as of B",
    "lambda_raw": "before annealing; of a learned lambda sl2/sa2 at the end of the round",
    "lambda_effective": "the weight of A against B that the weights see",
    "lambda_stationary": "where the round's mean losses would lead the raw lambda",
    "sigma_sq_local": "sl2, the learned variance of B",
    "sigma_sq_align": "sa2, the learned variance of A",
    "prototype_norm_seen": "mean norm of the prototypes of classes that the client holds",
    "prototype_norm_unseen": "the same of those that it does not hold",
    "readings": "stands in the file as keys of its own: whatever else the method measures",
}
EPOCH = {
    "round": "from 0",
    "local_epoch": "within the round, from 0",
    "client": "from 0",
    "train_accuracy": "of the client alone on its own training images",
    "test_accuracy": "of the client alone on test images",
    "base_losses": "B of each step",
    "align_losses": "A of each step",
}
ROUND = {
    "round": "from 0",
    "accuracy": "on the test set, by fusion; null where the round was not evaluated",
    "validation_accuracy": "the same on the share of `data.validation`",
    "local_accuracy": "on the test set, by client alone",
    "samples": "that all clients were trained on",
    "train_seconds": "of training",
    "upload_seconds": "of making uploads",
    "evaluate_seconds": "of fusing and evaluating",
    "seconds": "of everything",
    "samples_per_second": "in training",
}
WARNING = {
    "about": "stands in the file as `kind`: what the warning is about, for programs",
    "message": "a sentence",
    "client": "where it concerns one",
    "round": "where it concerns one",
}
SUMMARY = {
    "method": "its name",
    "dataset": "its name",
    "seed": "of the experiment",
    "status": "`finished`, `stopped` or `failed`",
    "rounds": "that were completed",
    "final_accuracy": "on the test set at the end, by fusion, the primary first",
    "peak_test_accuracy": "the best of any evaluated round: for looking, never for choosing",
    "validation_accuracy": "on the share of `data.validation`",
    "balanced_accuracy": "mean of the classes' recalls",
    "macro_f1": "mean of the classes' F1",
    "local_accuracy": "of each client alone; null for one without a model",
    "site_accuracy": "of the fused model on what each real site held out; null for one without a score",
    "temperature": "divides scores before a softmax; fitted on validation data, or the fusion's own",
    "calibration_error": "expected calibration error of these probabilities on the test set",
    "confusion": "by fusion, a row per true class: how many were predicted as which",
    "seconds": "of the whole run",
    "train_seconds": "of training alone",
    "samples_per_second": "in training",
    "task_bytes": "sent down to each site",
    "upload_bytes": "sent up by each client; null for one that sent nothing",
    "exchange_bytes": "sent down again to each client, where a fusion wants a second exchange",
    "fusion_bytes": "what a client sends for this fusion alone, on average",
    "server_seconds": "to fuse",
    "prediction_ms": "per image",
    "prediction_flops": "per image: multiplications and additions of convolutions and matrix products",
    "partition_hash": "the `hash` of partition.json",
    "start": "the hash of the common start",
    "sites": "names, where clients are sites",
    "label_table": "a row per client: how many samples of each class",
    "images": "shape, number of classes, mean and deviation that images are normalised by",
    "class_names": "in the order of labels",
    "environment": "versions, device, threads, and when the run ended",
    "warnings": "the messages of metrics.jsonl",
}


def explained(names: Iterable[str], meanings: dict[str, str]) -> list[str]:
    """The names, refused where the meanings are of others."""
    found = list(names)
    if set(found) != set(meanings):
        raise ValueError(f"explain anew: {sorted(set(found) ^ set(meanings))}")
    return found


def fields_table(owner: type, meanings: dict[str, str]) -> list[Row]:
    types = {
        item.name: str(item.type).replace("ByFusion", "dict[str, float]") for item in fields(owner)
    }
    rows = [cells(code(name), code(types[name]), meanings[name]) for name in explained(types, meanings)]
    return [["field", "type", "meaning"], *rows]


for name, owner, meanings in (
    ("metrics-client", ClientRound, CLIENT),
    ("metrics-epoch", EpochEnded, EPOCH),
    ("metrics-round", RoundEnded, ROUND),
    ("metrics-warning", Warned, WARNING),
    ("summary", Summary, SUMMARY),
):
    TABLES[name] = partial(fields_table, owner, meanings)


@table("sweep")
def sweep() -> list[Row]:
    return [["key", "meaning"], *([code(key), SWEEP[key]] for key in explained(KEYS, SWEEP))]


@table("search")
def search() -> list[Row]:
    ends = explained(RANGE, dict.fromkeys(RANGE_KEYS, ""))
    rows = [
        [code("trials"), f"how many runs; unset: {TRIALS}"],
        [code("vary.KEY"), "a list to choose from, or a mapping with these:"],
        *([code(f"vary.KEY.{end}"), RANGE[end]] for end in ends),
    ]
    return [["key", "meaning"], *rows]


def example_partition() -> str:
    """partition.json of six samples: two clients of two, one public, one held out."""
    partition = Partition([np.array([0, 3]), np.array([1, 4])], np.array([2]), np.array([5]))
    with TemporaryDirectory() as folder:
        file = Path(folder) / "partition.json"
        partition.save(file, "folder", np.array([0, 0, 0, 1, 1, 1]))
        return file.read_text()


@table("partition")
def partition() -> list[Row]:
    names = explained(json.loads(example_partition()), PARTITION)
    return [["field", "meaning"], *([code(name), PARTITION[name]] for name in names)]
