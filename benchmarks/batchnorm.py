"""Both kinds of BatchNorm statistics, read off the same clients while they train.

    python benchmarks/batchnorm.py presets/v4-cifar10.yaml data.root=DIR train.rounds=30 seed=11

Training does not depend on `upload.batchnorm`, so one training serves both. Choose on seeds that no
table reports. Prints one JSON object per line.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

from anchorfl.config import UploadOptions
from anchorfl.data import ImageStore
from anchorfl.engine import Federation
from anchorfl.server import Belief, evaluate, fuse, server_view
from anchorfl.settings import parse_words, read_preset, resolve
from anchorfl.site import Client, Trainer

READ_AT = (0, 4, 9, 19, 29, 49)


def main(preset: str, *words: str) -> None:
    settings = {**read_preset(Path(preset)), **parse_words(list(words))}
    federation = Federation.prepare(resolve(str(settings.pop("method")), settings))
    config, device = federation.config, federation.device
    trainer = Trainer(federation.task, device)
    store = ImageStore(federation.dataset.train, device)
    test = ImageStore(federation.dataset.test, device)
    classes = federation.dataset.facts.classes
    owns = [(k, own) for k, own in enumerate(federation.partition.clients) if len(own)]
    clients = [Client(k, trainer, store, own, classes) for k, own in owns]
    for number in range(config.train.rounds):
        for client in clients:
            client.train_round(number, lambda samples: None)
        for kind in ("recomputed", "running") if number in READ_AT else ():
            for client in clients:
                client.config = replace(config, upload=UploadOptions(batchnorm=kind))
            uploads = [client.upload() for client in clients]
            view = server_view(config, federation.dataset.facts, trainer.runners)
            fused = fuse(config.fusion, Belief(uploads), trainer.runners, view)
            accuracy = evaluate(fused, uploads, trainer.runners, test).accuracy()
            row = {"seed": config.seed, "round": number, "batchnorm": kind, **accuracy}
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
