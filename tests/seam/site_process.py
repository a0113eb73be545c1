"""A site: its own samples from a file of its own, tasks and requests from a pipe."""

import sys

import numpy as np
import torch

from anchorfl.data import Split
from anchorfl.site import Site
from tests.seam.pipes import read, write


def main(number: str, samples: str) -> None:
    torch.set_num_threads(1)
    own = np.load(samples)
    site = Site(int(number), Split(own["images"], own["labels"]), torch.device("cpu"))
    while True:
        kind, parts = read(sys.stdin.buffer)
        if kind == "end":
            return
        if kind == "task":
            site.receive(parts[0])
            answer = []
        elif kind == "train":
            report = site.train(int(parts[0]))
            answer = [] if report is None else [report]
        elif kind == "upload":
            answer = [site.upload()]
        else:
            answer = [site.describe(parts[0])]
        write(sys.stdout.buffer, kind, *answer)


main(*sys.argv[1:])
