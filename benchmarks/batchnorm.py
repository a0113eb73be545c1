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

from anchorfl.settings import parse_words, read_preset, resolve
from anchorfl.simulate import Simulation

READ_AT = (0, 4, 9, 19, 29, 49)


def main(preset: str, *words: str) -> None:
    settings = {**read_preset(Path(preset)), **parse_words(list(words))}
    simulation = Simulation.prepare(resolve(str(settings.pop("method")), settings))
    config, engine = simulation.config, simulation.open()
    for number in range(config.train.rounds):
        for _ in engine.train(number, lambda event: None):
            pass
        for kind in ("recomputed", "running") if number in READ_AT else ():
            for site in engine.sites:
                site.config = replace(config, upload=replace(config.upload, batchnorm=kind))
            accuracy = simulation.evaluate(engine).evaluation.accuracy()
            row = {"seed": config.seed, "round": number, "batchnorm": kind, **accuracy}
            print(json.dumps(row), flush=True)
    engine.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
