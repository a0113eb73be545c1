"""Every reader of a file or message that may be a stranger's, as a function of bytes, with seeds.

A reader may refuse with a UserError, and may do nothing else: no other exception, no crash, no hang.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import pickle
import struct
import tempfile
import zlib
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from io import BytesIO
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from scipy.io import savemat

from anchorfl.data import ImageFacts, Split, load_partition, read_images
from anchorfl.data.matlab import read_mat
from anchorfl.data.readers import read_idx
from anchorfl.data.unpickle import read_pickled_arrays
from anchorfl.errors import UserError
from anchorfl.events import ClientRound, as_record
from anchorfl.loop.checkpoints import Checkpoint, read_checkpoint
from anchorfl.messages import Description, Request, Start, Task, Upload, pack, read_start
from anchorfl.model import FusedModel
from anchorfl.prepare import Setup, describer_for, new_task
from anchorfl.runs import Summary, read_run
from anchorfl.server import Server
from anchorfl.settings import read_preset, resolve
from anchorfl.site import Site, Trainer
from anchorfl.start import StartOptions, make_start
from anchorfl.sweep import read_plan
from anchorfl.tensors import Encoder
from anchorfl.transport.scores import read_score

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
    config = resolve("v4", {"fusion": "sketch-guided,class-mean"})
    task = new_task(config, FACTS, tuple("abcd"))
    return Server(Setup(task, config), torch.device("cpu"))


def open_task(data: bytes) -> object:
    """As a site opens it: its settings too, and the networks that its weights fill."""
    setup = Setup.of(Task.from_bytes(data))
    return [make() for make in setup.networks().values()]


def admit(data: bytes) -> object:
    server().hold([])
    refusal = server().receive(data)
    if refusal is not None:
        raise UserError(str(refusal))
    return server().uploads


def read_report(data: bytes) -> object:
    """A report of a round, as an upload holds it."""
    try:
        record = json.loads(data)
    except (ValueError, RecursionError):
        raise UserError("no JSON") from None
    return as_record(ClientRound.from_record(record))


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


def report() -> ClientRound:
    return ClientRound(0, 0, 27, 2, 1.0, 0.5, None, 0.1, readings={"grad_norm": 0.25})


@cache
def upload() -> bytes:
    """Of a site that was never trained; a server admits it."""
    setup, labels = server().setup, np.repeat([0, 2], [12, 15])
    images = np.random.default_rng(0).integers(0, 256, (27, 1, 8, 8), dtype=np.uint8)
    site = Site(Trainer(setup, torch.device("cpu")), Split(images, labels), "north")
    return replace(site.upload(), telemetry=(report(),)).to_bytes()


@cache
def model() -> FusedModel:
    """That of one site's upload."""
    server().hold([Upload.from_bytes(upload())])
    return server().fuse()


@cache
def saved_model() -> bytes:
    path = folder() / "saved.safetensors"
    model().save(path)
    return path.read_bytes()


def score() -> bytes:
    saved_model()
    named = {"site": "north", "model": model().hash, "fusion": model().card.fusion}
    content = {**named, "classes": model().class_names, "confusion": [[3, 0, 0, 1]] * 4}
    return json.dumps(content).encode()


def checkpoint() -> bytes:
    sites = {"0": {"weights/a": torch.zeros(2), "halted": torch.tensor(False)}}
    taken = Checkpoint(1, "hash", 1, {"a": torch.zeros(2)}, torch.zeros(2), sites)
    return taken.to_bytes((0, hashlib.sha256(b"").hexdigest()))


def start_in(path: Path) -> object:
    found = read_start(path)
    config = resolve("v4", {"data.flip": True, "describe.width": 5, "model.name": "small-cnn"})
    return found and describer_for(config, FACTS, found)


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
    "task": (open_task, lambda: [server().task.to_bytes()]),
    "start": (as_file("start.safetensors", start_in), lambda: [start().to_bytes()]),
    "upload": (admit, lambda: [upload()]),
    "messages": (
        lambda data: (Request, Description)[len(data) % 2].from_bytes(data),
        lambda: [
            Description("north", {"a/b": torch.zeros(2)}, "x", "y").to_bytes(),
            Request({}, "x").to_bytes(),
            Request({"north": Encoder("small-cnn", {"a": torch.zeros(2)})}, "x").to_bytes(),
        ],
    ),
    "report": (
        read_report,
        lambda: [b'{"round": 0, "readings": {}}', json.dumps(as_record(report())).encode()],
    ),
    "model": (
        as_file("p.safetensors", FusedModel.load),
        lambda: [
            saved_model(),
            pack("model", {"card": {}, "encoders": 1, "head": {}}, {"a": torch.zeros(2)}),
        ],
    ),
    "score": (as_file("x.score", lambda path: read_score(path, model())), lambda: [score()]),
    "checkpoint": (
        as_file("c.safetensors", lambda path: read_checkpoint(path, path.with_name("none.jsonl"))),
        lambda: [checkpoint()],
    ),
}
