"""A server: the task's bytes and test images of its own, uploads from a pipe."""

import json
import sys

import numpy as np
import torch

from anchorfl.data import Shard, Split
from anchorfl.messages import Description, Task
from anchorfl.server import Server
from tests.seam.pipes import read, write

CPU = torch.device("cpu")


def main(images: str) -> None:
    torch.set_num_threads(1)
    own = np.load(images)
    test = Shard.whole(Split(own["images"], own["labels"]), CPU)
    _, (task,) = read(sys.stdin.buffer)
    server = Server(Task.from_bytes(task), CPU)
    while True:
        kind, parts = read(sys.stdin.buffer)
        if kind == "end":
            return
        if kind == "uploads":
            server.hold([])  # those of an evaluation point before
            for part in parts:
                server.receive(part)
            server.require_enough()
            request = server.request()
            answer = [] if request is None else [request.to_bytes()]
        elif kind == "descriptions":
            server.receive_answers([Description.from_bytes(part) for part in parts])
            answer = []
        elif kind == "evaluate":
            accuracy = server.evaluate(server.fuse_all(), test).accuracy()
            answer = [json.dumps(accuracy).encode()]
        else:
            following = server.next_task()
            answer = [] if following is None else [following.to_bytes()]
        write(sys.stdout.buffer, kind, *answer)


main(*sys.argv[1:])
