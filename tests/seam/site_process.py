"""A site: its own samples from a file of its own, tasks and requests from a pipe."""

import json
import sys
from dataclasses import replace

import numpy as np
import torch

from anchorfl.data import Split
from anchorfl.events import as_record
from anchorfl.messages import Request, Task
from anchorfl.prepare import Setup
from anchorfl.site import Site, Trainer
from tests.seam.pipes import read, write

CPU = torch.device("cpu")


def main(number: str, samples: str) -> None:
    torch.set_num_threads(1)
    own = np.load(samples)
    _, (first,) = read(sys.stdin.buffer)
    trainer = Trainer(Setup.of(Task.from_bytes(first)), CPU)
    site = Site(trainer, Split(own["images"], own["labels"]), number, int(number))
    write(sys.stdout.buffer, "task")
    while True:
        kind, parts = read(sys.stdin.buffer)
        if kind == "end":
            return
        answer: list[bytes] = []
        if kind == "task":
            site.receive(Task.from_bytes(parts[0]))
        elif kind == "train" and trainer.trains:
            answer = [json.dumps(as_record(site.train_round(int(parts[0])))).encode()]
        elif kind == "upload":
            answer = [site.upload().to_bytes()]
        elif kind == "describe":
            request = Request.from_bytes(parts[0])
            answer = [replace(site.describe(request), request=request.hash).to_bytes()]
        write(sys.stdout.buffer, kind, *answer)


main(*sys.argv[1:])
