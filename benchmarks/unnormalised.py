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
from shared import finished

from anchorfl.data import Shard
from anchorfl.messages import Upload


def unnormalised(upload: Upload) -> Upload:
    mean, std = (upload.trained[name] for name in ("mean", "std"))
    plain = {"mean": torch.zeros_like(mean), "std": torch.ones_like(std)}
    return replace(upload, trained={**upload.trained, **plain})


def main(folder: str, *words: str) -> None:
    run, dataset, server = finished(folder, words)
    server.hold(map(unnormalised, server.uploads.values()))
    evaluation = server.evaluate(server.fuse_all(), Shard.whole(dataset.test, server.device))
    print(json.dumps({"run": run.folder.name, "unnormalised": evaluation.accuracy()}))


if __name__ == "__main__":
    main(*sys.argv[1:])
