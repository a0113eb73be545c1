"""A finished run tested on images that its networks do not normalise, as the diary's code did.

    python benchmarks/unnormalised.py RUN data.root=DIR

The uploads hold the mean and deviation that images are normalised by: here they are 0 and 1 when the
server encodes test images. Prints one JSON object.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace

import torch

from anchorfl.compute import choose_device
from anchorfl.data import ImageStore
from anchorfl.engine import data_of, uploads_of
from anchorfl.runs import read_run
from anchorfl.server import Belief, evaluate, fuse, runners_for, server_view
from anchorfl.settings import parse_words


def main(folder: str, *words: str) -> None:
    run, device = read_run(folder), choose_device("auto")
    root = parse_words(list(words)).get("data.root")
    dataset = data_of(run, None if root is None else str(root))
    config = run.config
    runners = runners_for(config, dataset.facts, device)
    uploads = []
    for upload in uploads_of(run, device):
        trained = dict(upload.trained)
        trained["mean"] = torch.zeros_like(trained["mean"])
        trained["std"] = torch.ones_like(trained["std"])
        uploads.append(replace(upload, trained=trained))
    view = server_view(config, dataset.facts, runners)
    fused = fuse(config.fusion, Belief(uploads), runners, view)
    evaluation = evaluate(fused, uploads, runners, ImageStore(dataset.test, device))
    print(json.dumps({"run": run.folder.name, "unnormalised": evaluation.accuracy()}))


if __name__ == "__main__":
    main(*sys.argv[1:])
