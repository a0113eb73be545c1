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

from anchorfl.compute import choose_device
from anchorfl.data import ImageStore
from anchorfl.engine import data_of, start_of, uploads_of
from anchorfl.runs import read_run
from anchorfl.server import Fused, evaluate, runners_for, server_view
from anchorfl.server.fusion.class_mean import owners
from anchorfl.server.fusion.sketched import GuidedHead, SketchGuided
from anchorfl.settings import parse_words


def trusted(folder: str, root: str | None) -> dict[str, object]:
    run, device = read_run(folder), choose_device("auto")
    config, dataset = run.config, data_of(run, root)
    runners = runners_for(config, dataset.facts, device)
    uploads = uploads_of(run, device)
    runners.evaluation_mode(upload.encoder for upload in uploads)
    rule = SketchGuided()
    encoders = rule.encoders(uploads)
    view = server_view(config, dataset.facts, runners, start_of(run))
    head = rule.head(uploads, encoders, view)
    assert isinstance(head, GuidedHead)
    own = owners(uploads, rule.q, device, head.guide.knows())
    most, apart = rule.trust(own, uploads, view.sums(uploads).fit.explained)
    weights = {"m": most, "m / S": most / apart, "m / S^2": most / apart**2, "guide": 1e6}
    fused = {
        name: Fused(encoders, GuidedHead(head.owners, head.guide, weight), 0.0)
        for name, weight in weights.items()
    }
    held_out = json.loads(run.files.partition.read_text())["validation"]
    split = dataset.train if held_out else dataset.test
    asked = torch.tensor(held_out) if held_out else torch.arange(len(split))
    accuracy = evaluate(fused, uploads, runners, ImageStore(split, device), asked).accuracy()
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
    given = parse_words([word for word in words if "=" in word])
    for folder in (word for word in words if "=" not in word):
        root = str(given["data.root"]) if "data.root" in given else None
        print(json.dumps(trusted(folder, root)), flush=True)


if __name__ == "__main__":
    with torch.no_grad():
        main(*sys.argv[1:])
