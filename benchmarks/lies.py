"""One lying site of five on digits: what each lie does to each fusion, with and without server.robust.

    python benchmarks/lies.py [ALPHA ...] > benchmarks/records/lies.jsonl

Three seeds, each site the liar in turn, 25 rounds of V4. The lies are those that keep to the rules of
admission; what does not is refused (tests/server/test_admission.py). A line per seed, lie and liar.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import replace

import torch

from anchorfl.data import ImageStore, Split, draw_partition, load_dataset
from anchorfl.engine.in_process import InProcess
from anchorfl.server import Server
from anchorfl.settings import resolve
from anchorfl.wire import Task

CPU = torch.device("cpu")
SEEDS, ROUNDS = (1, 2, 3), 25
FUSIONS = "sketch-guided,class-mean,joint-sketch-ridge"
RULES = ("off", "capped", "cross-checked")
TENFOLD = 10


class Sites:
    """The five sites of a draw, honest, with flipped labels, and with an encoder that never trained."""

    def __init__(self, seed: int, alpha: float) -> None:
        words = {"train.rounds": ROUNDS, "seed": seed, "partition.alpha": alpha, "fusion": FUSIONS}
        self.config = resolve("v4", words)
        data = load_dataset(self.config.data)
        self.task = Task.prepare(self.config, data.facts, tuple(data.class_names))
        self.test = ImageStore(data.test, CPU)
        labels = data.train.labels
        self.owns = draw_partition(labels, self.config.partition, 0.0, data.name).clients
        flipped = Split(data.train.images, data.facts.classes - 1 - labels)
        other = replace(self.config, general=replace(self.config.general, seed=seed + 1000))
        untrained = replace(self.task, weights=Task.prepare(other, data.facts).weights)
        self.engines = {
            "honest": self.engine(data.train, self.task, ROUNDS),
            "labels flipped": self.engine(flipped, self.task, ROUNDS),
            "random encoder": self.engine(data.train, untrained, 0),
        }

    def engine(self, split: Split, task: Task, rounds: int) -> InProcess:
        engine = InProcess(self.owns, ImageStore(split, CPU), self.test, CPU)
        engine.send(task)
        for number in range(rounds):
            list(engine.train(number, lambda event: None))
        return engine

    def accuracies(self, kinds: Sequence[str]) -> dict[str, dict[str, float]]:
        """By rule and fusion, with the site at each place as that kind."""
        engines = [self.engines["honest" if kind == "tenfold" else kind] for kind in kinds]
        clients = [engine.clients[place] for place, engine in enumerate(engines)]
        hash_ = self.task.hash
        uploads = [replace(client.upload(), task=hash_) for client in clients]
        server = Server(self.task, CPU)
        request = server.request(uploads)
        assert request is not None
        uploads = server.with_descriptions(uploads, [client.describe(request) for client in clients])
        for place, kind in enumerate(kinds):
            if kind == "tenfold":
                upload = uploads[place]
                sums = {
                    name: value * TENFOLD if "moments" in name else value
                    for name, value in upload.statistics.items()
                }
                counts = upload.class_counts * TENFOLD
                uploads[place] = replace(upload, statistics=sums, class_counts=counts)
        found = {}
        for rule in RULES:
            options = replace(self.config.server, robust=rule)
            server.config = replace(self.config, server=options)
            found[rule] = server.evaluate(server.fuse(uploads), uploads, self.test).accuracy()
        return found


def main(*alphas: str) -> None:
    torch.set_num_threads(1)
    for alpha in map(float, alphas or ("0.05", "0.5")):
        for seed in SEEDS:
            sites = Sites(seed, alpha)
            places = range(len(sites.engines["honest"].clients))
            show(alpha, seed, "honest", None, sites.accuracies(["honest"] * len(places)))
            for lie in ("labels flipped", "random encoder", "tenfold"):
                for liar in places:
                    kinds = ["honest"] * len(places)
                    kinds[liar] = lie
                    show(alpha, seed, lie, liar, sites.accuracies(kinds))


def show(alpha: float, seed: int, lie: str, liar: int | None, found: dict[str, object]) -> None:
    line = {"alpha": alpha, "seed": seed, "lie": lie, "liar": liar, "accuracy": found}
    print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
