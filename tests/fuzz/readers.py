"""Every reader of a file or message that may be a stranger's, as a function of bytes, with seeds.

A reader may refuse with a UserError, and may do nothing else: no other exception, no crash, no hang.
"""

from __future__ import annotations

import gzip
import json
import pickle
import struct
import tempfile
import zlib
from collections.abc import Callable
from functools import cache
from io import BytesIO
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from scipy.io import savemat

from anchorfl.data import ImageFacts, load_partition, read_images
from anchorfl.data.matlab import read_mat
from anchorfl.data.readers import read_idx
from anchorfl.data.unpickle import read_pickled_arrays
from anchorfl.engine.checkpoints import read_checkpoint
from anchorfl.predictor import load_predictor
from anchorfl.runs import Summary, read_run
from anchorfl.server import Server
from anchorfl.settings import read_preset, resolve
from anchorfl.start import StartOptions, make_start
from anchorfl.sweep import read_plan
from anchorfl.wire import ClientRound, Description, Request, Start, Task, Upload, pack, read_start

LABELS = np.arange(20) % 4
FACTS = ImageFacts((1, 8, 8), 4, (0.5,), (0.25,))
CONFIG = "method: v4\ndata.name: digits\ntrain: {rounds: 2}\nseed: 1\n"
SWEEP = "settings: {data.name: digits}\nlist: [{method: v4}]\ngrid: {seed: [1, 2]}\n"
ALIASES = "a: &a [x, x]\nb: &b [*a, *a, *a, *a]\nc: [*b, *b, *b, *b]\n"
METRICS = (
    '{"event": "client", "round": 0, "client": 0, "samples": 3, "base_loss": 1.0, "lambda_raw": null}\n'
    '{"event": "round", "round": 0, "accuracy": {"class-mean": 0.5}, "local_accuracy": [0.1]}\n'
)


@cache
def folder() -> Path:
    """Where what a reader wants as a file is put; in memory where there is such a place."""
    memory = Path("/dev/shm")
    return Path(tempfile.mkdtemp(dir=memory if memory.is_dir() else None))


def as_file(name: str, read: Callable[[Path], object]) -> Callable[[bytes], object]:
    def reader(data: bytes) -> object:
        path = folder() / name
        path.write_bytes(data)
        return read(path)

    return reader


def in_run(name: str) -> Callable[[bytes], object]:
    """A run's folder, one of whose files is the given bytes."""

    def reader(data: bytes) -> object:
        place = folder() / "run"
        place.mkdir(exist_ok=True)
        for other, text in (("config.yaml", CONFIG), ("metrics.jsonl", METRICS)):
            (place / other).write_text(text)
        (place / name).write_bytes(data)
        run = read_run(place)
        return run.clients, run.evaluations, run.largest_lambda, run.unfinished

    return reader


@cache
def server() -> Server:
    return Server(Task.prepare(resolve("v4", {"fusion": "sketch-guided"}), FACTS), torch.device("cpu"))


def admit(data: bytes) -> object:
    return server().admission.admit(data, server().task.hash)


def idx(values: np.ndarray) -> bytes:
    sizes = struct.pack(f">{values.ndim}I", *values.shape)
    return struct.pack(">I", 0x0800 + values.ndim) + sizes + values.tobytes()


def mat(compressed: bool) -> bytes:
    file = BytesIO()
    pictures = np.zeros((32, 32, 3, 2), np.uint8)
    savemat(file, {"X": pictures, "y": np.array([[1], [10]], np.uint8)}, do_compression=compressed)
    return file.getvalue()


def picture(form: str) -> bytes:
    file = BytesIO()
    Image.fromarray(np.arange(256, dtype=np.uint8).reshape(16, 16)).save(file, form)
    return file.getvalue()


def partition() -> bytes:
    content = {"format": 1, "dataset": "x", "clients": [[0, 1], [2, 3]], "public": [], "validation": []}
    return json.dumps(content).encode()


def upload() -> bytes:
    network = server().runners[""].network
    counts = torch.tensor([12, 0, 15, 0])
    return Upload(0, counts, network.state_dict(), {}, "small-cnn", server().task.hash).to_bytes()


def start_in(path: Path) -> object:
    found = read_start(path)
    return found and found.describer((1, 8, 8), True, 5, "small-cnn")


@cache
def start() -> Start:
    return make_start(StartOptions((1, 8, 8), "small-cnn", pictures=40, epochs=0), lambda count: None)


READERS: dict[str, tuple[Callable[[bytes], object], Callable[[], list[bytes]]]] = {
    "cifar": (
        as_file("batch", read_pickled_arrays),
        lambda: [
            pickle.dumps({b"data": np.zeros((2, 3072), np.uint8), b"labels": [1, 2]}, version)
            for version in (2, 4, 5)
        ],
    ),
    "mat": (
        as_file("x.mat", lambda path: read_mat(path, ("X", "y"))),
        lambda: [mat(True), mat(False), b"MATLAB 5.0" + b" " * 118 + zlib.compress(bytes(999))],
    ),
    "idx": (
        as_file("x-ubyte.gz", lambda path: read_idx(path, 3)),
        lambda: [
            idx(np.zeros((2, 4, 4), np.uint8)),
            gzip.compress(idx(np.zeros((2, 4, 4), np.uint8))),
            gzip.compress(bytes(10**6)),
        ],
    ),
    "picture": (
        as_file("x.png", lambda path: read_images([(path, 0)], 8, 1)),
        lambda: (
            [picture(form) for form in ("PNG", "JPEG", "BMP", "GIF")] + [b"%!PS-Adobe-3.0 EPSF-3.0\n"]
        ),
    ),
    "yaml": (
        as_file("x.yaml", lambda path: resolve("v4", {**read_preset(path), "out": None})),
        lambda: [CONFIG.encode(), ALIASES.encode(), b"[" * 5000],
    ),
    "sweep": (as_file("s.yaml", lambda path: read_plan(path).trials()), lambda: [SWEEP.encode()]),
    "metrics": (in_run("metrics.jsonl"), lambda: [METRICS.encode(), b"[" * 5000 + b"\n"]),
    "summary": (
        in_run("summary.json"),
        lambda: [Summary(status="finished", label_table=[[1, 2]]).to_json().encode()],
    ),
    "partition": (
        as_file("p.json", lambda path: load_partition(path, "x", LABELS)),
        lambda: [partition()],
    ),
    "task": (Task.from_bytes, lambda: [server().task.to_bytes()]),
    "start": (as_file("start.safetensors", start_in), lambda: [start().to_bytes()]),
    "upload": (admit, lambda: [upload()]),
    "messages": (
        lambda data: (Request, Description, ClientRound)[len(data) % 3].from_bytes(data),
        lambda: [
            Description(0, {"a/b": torch.zeros(2)}).to_bytes(),
            Request([], "x").to_bytes(),
            b'{"round": 0, "readings": {}}',
        ],
    ),
    "predictor": (
        as_file("p.safetensors", load_predictor),
        lambda: [pack("predictor", {"card": {}, "encoders": 1, "head": {}}, {"a": torch.zeros(2)})],
    ),
    "checkpoint": (
        as_file("c.safetensors", lambda path: read_checkpoint(path, path.with_name("none.jsonl"))),
        lambda: [pack("checkpoint", {"position": 1, "metrics": [0, ""]}, {"task/a": torch.zeros(2)})],
    ),
}
