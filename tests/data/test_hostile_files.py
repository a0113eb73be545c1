"""Official files that are not: whatever their bytes are, a clear line and nothing else."""

from __future__ import annotations

import gzip
import os
import pickle
import struct
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image
from scipy.io import savemat

from anchorfl.config import DataOptions
from anchorfl.data import load_dataset
from anchorfl.data.matlab import LARGEST, read_mat
from anchorfl.data.readers import read_idx
from anchorfl.data.unpickle import read_pickled_arrays
from anchorfl.errors import UserError
from tests.conftest import write_svhn

CIFAR = pickle.dumps(
    {b"data": np.arange(6144, dtype=np.int64).astype(np.uint8).reshape(2, 3072), b"labels": [1, 2]}, 2
)
SEVERAL = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))


def mutated(data: bytes, changes: list[tuple[int, int]], end: int) -> bytes:
    changed = bytearray(data)
    for place, value in changes:
        changed[place % len(changed)] = value
    return bytes(changed[: len(changed) - end % 40])


CHANGES = st.lists(st.tuples(st.integers(0, 1 << 20), st.integers(0, 255)), min_size=1, max_size=6)


@SEVERAL
@given(CHANGES, st.integers(0, 39))
def test_a_mutated_pickle_ends_in_one_line_or_is_read(
    tmp_path_factory: pytest.TempPathFactory, changes: list[tuple[int, int]], end: int
) -> None:
    file = tmp_path_factory.mktemp("pickle") / "file"
    near_the_start = [(place % 260, value) for place, value in changes]
    for places in (changes, near_the_start):
        file.write_bytes(mutated(CIFAR, places, end))
        refused_or_read(lambda: read_pickled_arrays(file))


@SEVERAL
@given(CHANGES, st.integers(0, 39), st.booleans())
def test_a_mutated_mat_file_ends_in_one_line_or_is_read(
    tmp_path_factory: pytest.TempPathFactory, changes: list[tuple[int, int]], end: int, packed: bool
) -> None:
    file = tmp_path_factory.mktemp("mat") / "file.mat"
    images = np.zeros((32, 32, 3, 2), np.uint8)
    savemat(file, {"X": images, "y": np.array([[1], [2]], np.uint8)}, do_compression=packed)
    whole = file.read_bytes()
    for places in (changes, [(128 + place % 80, value) for place, value in changes]):
        file.write_bytes(mutated(whole, places, end))
        refused_or_read(lambda: read_mat(file, ("X", "y")))


@SEVERAL
@given(CHANGES, st.integers(0, 39), st.booleans())
def test_a_mutated_idx_file_ends_in_one_line_or_is_read(
    tmp_path_factory: pytest.TempPathFactory, changes: list[tuple[int, int]], end: int, packed: bool
) -> None:
    file = tmp_path_factory.mktemp("idx") / "file"
    plain = struct.pack(">4I", 0x803, 2, 4, 4) + bytes(32)
    file.write_bytes(mutated(gzip.compress(plain) if packed else plain, changes, end))
    refused_or_read(lambda: read_idx(file, 3))


def refused_or_read(read: Callable[[], object]) -> None:
    with suppress(UserError):
        read()


def test_an_array_whose_type_crashed_the_interpreter_is_refused(tmp_path: Path) -> None:
    """A state of numpy's dtype that its own unpickling believes."""
    stream = (
        b"\x80\x02cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R(K\x03U\x01|NNNJ\xff\xff\xff\xffK\x40K\x00tb."
    )
    (tmp_path / "file").write_bytes(stream)
    with pytest.raises(UserError, match="refused, not an official file"):
        read_pickled_arrays(tmp_path / "file")


def test_a_packed_file_of_zeros_is_not_unpacked(tmp_path: Path) -> None:
    (tmp_path / "bomb").write_bytes(gzip.compress(bytes(1 << 27), 9))
    with pytest.raises(UserError, match="unpacks to more than any official file holds"):
        read_idx(tmp_path / "bomb", 3)
    machine = zlib.compressobj(9)
    packed = b"".join(machine.compress(bytes(1 << 24)) for _ in range(LARGEST // (1 << 24) + 2))
    packed += machine.flush()
    head = bytes(124) + b"\x00\x01IM" + struct.pack("<II", 15, len(packed))
    (tmp_path / "bomb.mat").write_bytes(head + packed)
    with pytest.raises(UserError, match="unpacks to more than any official file holds"):
        read_mat(tmp_path / "bomb.mat", ("X",))


@pytest.mark.parametrize("label", [0, 37, float("nan"), 1.5])
def test_svhn_labels_are_checked_as_they_stand(label: float, tmp_path: Path) -> None:
    images = write_svhn(tmp_path)
    labels = np.ones((images.shape[3], 1))
    labels[3] = label
    savemat(tmp_path / "svhn" / "test_32x32.mat", {"X": images, "y": labels})
    with pytest.raises(UserError, match="y holds other labels than 1 to 10"):
        load_dataset(DataOptions(name="svhn", root=str(tmp_path)))


def test_a_picture_is_opened_as_one_of_the_formats_that_are_meant(tmp_path: Path) -> None:
    """PostScript under another name would be handed to a program; a pipe would never end."""
    for name in ("cat", "dog"):
        (tmp_path / name).mkdir()
        for number in range(5):
            Image.new("RGB", (8, 8), (number * 40, 9, 9)).save(tmp_path / name / f"{number}.png")
    os.mkfifo(tmp_path / "cat" / "pipe.png")
    options = DataOptions(name="folder", root=str(tmp_path), size=8)
    assert len(load_dataset(options).train) == 8
    script = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n%%EndComments\nshowpage\n"
    (tmp_path / "dog" / "0.png").write_bytes(script)
    with pytest.raises(UserError, match=r"0\.png: truncated, corrupt or not an image"):
        load_dataset(options)
