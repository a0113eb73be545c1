"""One lying site of five on digits: what each lie does to each fusion, with and without server.robust.

    python benchmarks/lies.py [--tiny] [ALPHA ...] > benchmarks/records/lies.jsonl

Three seeds, each site the liar in turn, 25 rounds of V4; `--tiny`: one of each. The lies are those that
keep to the rules of admission; what does not is refused (tests/server/test_admission.py). A line per
seed, lie and liar.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import replace

import torch
from shared import without_tiny

from anchorfl.data import ImageStore, Shard, Split, draw_partition, load_dataset
from anchorfl.loop import InProcess
from anchorfl.messages import Task, Upload
from anchorfl.prepare import Setup, new_task
from anchorfl.server import Server
from anchorfl.settings import resolve

CPU = torch.device("cpu")
SEEDS, ROUNDS = (1, 2, 3), 25
FUSIONS = "sketch-guided,class-mean,joint-sketch-ridge"
TINY = {"describe.filters": 8}
RULES = ("off", "capped", "cross-checked")
TENFOLD = 10


class Sites:
    """The five sites of a draw, honest, with flipped labels, and with an encoder that never trained."""

    def __init__(self, seed: int, alpha: float, tiny: bool) -> None:
        rounds = 1 if tiny else ROUNDS
        words = {"train.rounds": rounds, "seed": seed, "partition.alpha": alpha, "fusion": FUSIONS}
        self.config = resolve("v4", {**words, **(TINY if tiny else {})})
        data = load_dataset(self.config.data)
        self.task = new_task(self.config, data.facts, tuple(data.class_names))
        self.test = Shard.whole(data.test, CPU)
        labels = data.train.labels
        self.owns = draw_partition(labels, self.config.partition, 0.0, data.name).clients
        flipped = Split(data.train.images, data.facts.classes - 1 - labels)
        other = self.config.replace_general(seed=seed + 1000)
        untrained = replace(self.task, weights=new_task(other, data.facts).weights)
        self.engines = {
            "honest": self.engine(data.train, self.task, rounds),
            "labels flipped": self.engine(flipped, self.task, rounds),
            "random encoder": self.engine(data.train, untrained, 0),
        }

    def engine(self, split: Split, task: Task, rounds: int) -> InProcess:
        setup = Setup(task, self.config)
        engine = InProcess(setup, self.owns, ImageStore(split, CPU), self.test, CPU)
        for number in range(rounds):
            list(engine.train(number, lambda event: None))
        return engine

    def accuracies(self, kinds: Sequence[str]) -> dict[str, dict[str, float]]:
        """By rule and fusion, with the site at each place as that kind."""
        engines = [self.engines["honest" if kind == "tenfold" else kind] for kind in kinds]
        sites = [engine.sites[place] for place, engine in enumerate(engines)]
        server = Server(Setup(self.task, self.config), CPU)
        server.hold(replace(site.upload(), task=self.task.hash) for site in sites)
        request = server.request()
        assert request is not None
        server.answer([site.describe(request) for site in sites])
        server.hold(
            tenfold(upload) if kind == "tenfold" else upload
            for kind, upload in zip(kinds, server.uploads.values(), strict=True)
        )
        found = {}
        for rule in RULES:
            options = replace(self.config.server, robust=rule)
            server.config = replace(self.config, server=options)
            found[rule] = server.evaluate(server.fuse_all(), self.test).accuracy()
        return found


def tenfold(upload: Upload) -> Upload:
    """As if of ten times as many samples."""
    sums = {
        name: value * TENFOLD if "moments" in name else value
        for name, value in upload.statistics.items()
    }
    return replace(upload, statistics=sums, class_counts=upload.class_counts * TENFOLD)


def main(*words: str) -> None:
    torch.set_num_threads(1)
    alphas, tiny = without_tiny(words)
    for alpha in map(float, alphas or ("0.05", "0.5")):
        for seed in SEEDS[:1] if tiny else SEEDS:
            sites = Sites(seed, alpha, tiny)
            places = range(len(sites.engines["honest"].sites))
            show(alpha, seed, "honest", None, sites.accuracies(["honest"] * len(places)))
            for lie in ("labels flipped", "random encoder", "tenfold"):
                for liar in places[:1] if tiny else places:
                    kinds = ["honest"] * len(places)
                    kinds[liar] = lie
                    show(alpha, seed, lie, liar, sites.accuracies(kinds))


def show(alpha: float, seed: int, lie: str, liar: int | None, found: dict[str, object]) -> None:
    line = {"alpha": alpha, "seed": seed, "lie": lie, "liar": liar, "accuracy": found}
    print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
