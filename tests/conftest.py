"""What several tests share: the real command, a tiny trainer, files in the official formats."""

from __future__ import annotations

import contextlib
import gzip
import io
import pickle
import signal
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
import torch
from scipy.io import savemat

from anchorfl import registry
from anchorfl.cli.main import main
from anchorfl.data import ImageFacts, ImageStore, Shard, Split, synthetic_pictures
from anchorfl.describe import Describer, Sketch
from anchorfl.fusion import ServerView
from anchorfl.prepare import Setup, new_task
from anchorfl.settings import resolve
from anchorfl.site import Site, Trainer
from anchorfl.start import StartOptions, make_start
from anchorfl.tensors import Tensors

torch.set_num_threads(1)
FACTS = ImageFacts((1, 8, 8), 4, (0.5,), (0.25,))
CPU = torch.device("cpu")
ROOT = Path(__file__).parents[1]
RECORDS = ROOT / "benchmarks" / "records"


@pytest.fixture(scope="session")
def small_start(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A common start for digits, barely trained."""
    options = StartOptions(
        shape=(1, 8, 8), encoder="small-cnn", pictures=300, epochs=1, width=200, batch_size=64
    )
    file = tmp_path_factory.mktemp("start") / "small.safetensors"
    file.write_bytes(make_start(options, lambda count: None).to_bytes())
    return file


def command(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """The program's own entry, in this process: what it prints, and how it ends."""
    out, errors, code = io.StringIO(), io.StringIO(), 0
    handlers = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    with (
        contextlib.chdir(cwd),
        mock.patch.object(sys, "argv", ["anchorfl", *words]),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(errors),
    ):
        try:
            main()
        except SystemExit as end:
            code = int(end.code or 0)
        finally:
            for each, handler in handlers.items():
                signal.signal(each, handler)
    return subprocess.CompletedProcess(words, code, out.getvalue(), errors.getvalue())


@contextlib.contextmanager
def own_code_forgotten() -> Iterator[None]:
    """As a process of its own: what FILE.py:NAME imported is not known afterwards."""
    with pytest.MonkeyPatch.context() as patch:
        for table in registry.REGISTRIES:
            table.names()
            patch.setattr(table, "_entries", dict(table._entries))
        yield


def process(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """The real program, as a user starts it."""
    return process_of([sys.executable, "-m", "anchorfl", *words], cwd)


def process_of(words: list[str], cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, cwd=cwd, capture_output=True, text=True, timeout=300)


def tiny_split(samples: int = 24, classes: int = 4, seed: int = 0) -> Split:
    generator = np.random.default_rng(seed)
    images = generator.integers(0, 256, (samples, 1, 8, 8), dtype=np.uint8)
    return Split(images, np.arange(samples) % classes)


def server_view(
    shape: tuple[int, int, int] = (1, 8, 8),
    encode: Callable[[Tensors, torch.Tensor], torch.Tensor] = lambda weights, images: images,
    anchors: torch.Tensor | None = None,
    filters: int = 1,
    seed: int = 0,
) -> ServerView:
    """What a fusion may look at, where its test has no network."""
    return ServerView(
        seed,
        shape,
        CPU,
        encode,
        lambda: Describer(Sketch.drawn(shape, filters, seed, False)),
        lambda: synthetic_pictures(200, shape, seed, CPU).float() / 255,
        lambda: anchors,
    )


def make_setup(method: str = "v7", facts: ImageFacts = FACTS, **settings: object) -> Setup:
    """An experiment on images of some shape, and its first task."""
    config = resolve(method, settings)
    return Setup(new_task(config, facts, tuple("abcdefghij"[: facts.classes])), config)


def make_trainer(method: str = "v7", **settings: object) -> Trainer:
    return Trainer(make_setup(method, **settings), CPU)


def make_site(
    trainer: Trainer, number: int, store: ImageStore, places: Sequence[int] | np.ndarray, name: str = ""
) -> Site:
    """A simulated client: some images of a store."""
    own = Shard.of(store, np.asarray(places, dtype=np.int64))
    return Site(trainer, own, name or str(number), number)


@pytest.fixture
def store() -> ImageStore:
    return ImageStore(tiny_split(), CPU)


def write_cifar10(root: Path, per_file: int = 4) -> np.ndarray:
    """Small files as Python 2 and numpy 1 wrote them: protocol 2, byte keys."""
    folder = root / "cifar-10-batches-py"
    folder.mkdir(parents=True)
    generator = np.random.default_rng(1)
    rows = generator.integers(0, 256, (6 * per_file, 3072), dtype=np.uint8)
    names = [f"data_batch_{number}" for number in range(1, 6)] + ["test_batch"]
    for number, name in enumerate(names):
        part = slice(number * per_file, (number + 1) * per_file)
        content = {b"data": rows[part], b"labels": [k % 10 for k in range(per_file)]}
        (folder / name).write_bytes(pickle.dumps(content, protocol=2))
    meta = {b"label_names": [f"class{k}".encode() for k in range(10)]}
    (folder / "batches.meta").write_bytes(pickle.dumps(meta, protocol=2))
    return rows


def write_cifar100(root: Path, samples: int = 12) -> np.ndarray:
    folder = root / "cifar-100-python"
    folder.mkdir(parents=True)
    rows = np.random.default_rng(2).integers(0, 256, (samples, 3072), dtype=np.uint8)
    for name in ("train", "test"):
        labels = [(7 * k) % 100 for k in range(samples)]
        content = {b"data": rows, b"fine_labels": labels, b"coarse_labels": [0] * samples}
        (folder / name).write_bytes(pickle.dumps(content, protocol=4))
    meta = {b"fine_label_names": [f"fine{k}".encode() for k in range(100)]}
    (folder / "meta").write_bytes(pickle.dumps(meta, protocol=4))
    return rows


def write_svhn(root: Path, samples: int = 20) -> np.ndarray:
    folder = root / "svhn"
    folder.mkdir(parents=True)
    images = np.random.default_rng(3).integers(0, 256, (32, 32, 3, samples), dtype=np.uint8)
    labels = (np.arange(samples) % 10 + 1).astype(np.uint8)[:, None]
    for part in ("train", "test"):
        savemat(folder / f"{part}_32x32.mat", {"X": images, "y": labels})
    return images


def write_idx(
    folder: Path, samples: int = 20, pack: Callable[[bytes], bytes] = gzip.compress, suffix: str = ".gz"
) -> np.ndarray:
    folder.mkdir(parents=True)
    images = np.random.default_rng(4).integers(0, 256, (samples, 28, 28), dtype=np.uint8)
    labels = (np.arange(samples) % 10).astype(np.uint8)
    for prefix in ("train", "t10k"):
        head = struct.pack(">4I", 0x803, samples, 28, 28)
        (folder / f"{prefix}-images-idx3-ubyte{suffix}").write_bytes(pack(head + images.tobytes()))
        head = struct.pack(">2I", 0x801, samples)
        (folder / f"{prefix}-labels-idx1-ubyte{suffix}").write_bytes(pack(head + labels.tobytes()))
    return images
