"""How much to trust the guide: sketch-guided by other weights, on the same encoders.

    python -m benchmarks.trust RUN ... [data.root=DIR] >> benchmarks/records/trust.jsonl

A JSON line per finished run of v4, by today's rules: accuracy of the guide alone, and of sketch-guided
with the weight m that does not ask what encoders tell apart, with m / S and m / S^2. It is that on the
images which the run held out (data.validation), to choose by, else on test images.
"""

from __future__ import annotations

import json
import sys

import torch
from benchmarks.shared import finished

from anchorfl.data import ImageStore, Shard
from anchorfl.fusion.class_mean import owners
from anchorfl.fusion.sketched import GuidedHead, SketchGuided
from anchorfl.server import Fused


def trusted(folder: str, words: list[str]) -> dict[str, object]:
    run, dataset, server = finished(folder, words)
    uploads, device = list(server.uploads.values()), server.device
    server.runners.evaluation_mode(upload.encoder for upload in uploads)
    rule = SketchGuided()
    encoders = rule.encoders(uploads)
    head = rule.head(uploads, encoders, server.view)
    assert isinstance(head, GuidedHead)
    own = owners(uploads, rule.q, device, head.guide.knows())
    most, apart = rule.trust(own, uploads, server.view.sums(uploads).fit.explained)
    weights = {"m": most, "m / S": most / apart, "m / S^2": most / apart**2, "guide": 1e6}
    fused = {
        name: Fused(encoders, GuidedHead(head.owners, head.guide, weight), 0.0)
        for name, weight in weights.items()
    }
    held_out = json.loads(run.files.partition.read_text())["validation"]
    split = dataset.train if held_out else dataset.test
    asked = torch.tensor(held_out) if held_out else torch.arange(len(split))
    accuracy = server.evaluate(fused, Shard(ImageStore(split, device), asked)).accuracy()
    settings = ("data.name", "model.name", "partition.clients", "partition.alpha", "train.rounds")
    return {
        **{key: run.settings[key] for key in (*settings, "seed")},
        "images": "held out" if held_out else "test",
        "asked": len(asked),
        "S": round(apart, 3),
        "m": round(most, 3),
        "accuracy": {name: round(share, 4) for name, share in accuracy.items()},
    }


def main(*words: str) -> None:
    given = [word for word in words if "=" in word]
    for folder in (word for word in words if "=" not in word):
        print(json.dumps(trusted(folder, given)), flush=True)


if __name__ == "__main__":
    with torch.no_grad():
        main(*sys.argv[1:])
