"""A server: the task's bytes and test images of its own, uploads from a pipe."""

import json
import sys

import numpy as np
import torch

from anchorfl.data import ImageStore, Split
from anchorfl.server import Server
from anchorfl.wire import Task
from tests.seam.pipes import read, write


def main(images: str) -> None:
    torch.set_num_threads(1)
    own = np.load(images)
    store = ImageStore(Split(own["images"], own["labels"]), torch.device("cpu"))
    _, (task,) = read(sys.stdin.buffer)
    server = Server(Task.from_bytes(task), torch.device("cpu"))
    uploads = []
    while True:
        kind, parts = read(sys.stdin.buffer)
        if kind == "end":
            return
        if kind == "uploads":
            uploads = server.receive(parts)
            request = server.request(uploads)
            answer = [] if request is None else [request.to_bytes()]
        elif kind == "descriptions":
            uploads = server.receive_descriptions(uploads, parts)
            answer = []
        elif kind == "evaluate":
            accuracy = server.evaluate(server.fuse(uploads), uploads, store).accuracy()
            answer = [json.dumps(accuracy).encode()]
        else:
            following = server.step(uploads)
            answer = [] if following is None else [following.to_bytes()]
        write(sys.stdout.buffer, kind, *answer)


main(*sys.argv[1:])
