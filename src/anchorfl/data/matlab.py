"""Arrays in a MATLAB level 5 file, as SVHN's official ones are: read within bounds, no more.

A file is a header of 128 bytes and elements: a type, a length, the bytes, filled up to eight. A matrix
is an element of elements: flags, dimensions, name, values; it may be compressed.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from anchorfl.errors import UserError

HEADER, MATRIX, COMPRESSED = 128, 14, 15
TYPES = {1: "i1", 2: "u1", 3: "<i2", 4: "<u2", 5: "<i4", 6: "<u4", 7: "<f4", 9: "<f8", 12: "<i8"}
LARGEST = 1 << 28
"""Bytes of a matrix at most; the largest official one, SVHN's training images, has 225 MB."""


class CorruptError(ValueError):
    """Not what the format says."""


def elements(data: memoryview) -> Iterator[tuple[int, memoryview]]:
    """(type, bytes) one after the other; every length is checked against what is there."""
    place = 0
    while place + 8 <= len(data):
        first, length = struct.unpack_from("<II", data, place)
        if first >> 16:  # a small element: its length and its bytes lie in the tag itself
            kind, length, start = first & 0xFFFF, first >> 16, place + 4
            place += 8
            if length > 4:
                raise CorruptError("a small element is too long")
        else:
            kind, start = first, place + 8
            place = start + length + (-length % 8 if kind != COMPRESSED else 0)
        if start + length > len(data):
            raise CorruptError("an element is longer than the file")
        yield kind, data[start : start + length]


def unpacked(data: bytes | memoryview, most: int, wbits: int = zlib.MAX_WBITS) -> memoryview:
    """What was compressed, up to the largest size that an official file has."""
    machine = zlib.decompressobj(wbits)
    content = machine.decompress(data, most)
    if machine.unconsumed_tail:
        raise CorruptError("it unpacks to more than any official file holds")
    if not machine.eof:
        raise CorruptError("its end is missing")
    return memoryview(content)


def matrices(data: memoryview) -> Iterator[tuple[str, np.ndarray]]:
    """Name and values of every numeric matrix."""
    for kind, content in elements(data):
        if kind == COMPRESSED:
            yield from matrices(unpacked(content, LARGEST + 4096))
        elif kind == MATRIX:
            parts = list(elements(content))
            if len(parts) < 4:
                raise CorruptError("a matrix lacks a part")
            _, (_, sizes), (_, name), (type_of, values) = parts[:4]
            if type_of not in TYPES or len(sizes) % 4:
                raise CorruptError("a matrix has values of an unknown type")
            shape = [int(size) for size in np.frombuffer(sizes, "<i4")]
            numbers = np.frombuffer(bytearray(values), TYPES[type_of])
            if min(shape, default=0) < 0 or numbers.size != int(np.prod(shape, dtype=np.int64)):
                raise CorruptError("a matrix has not as many values as its sizes say")
            yield bytes(name).decode("latin1"), numbers.reshape(shape, order="F")


def read_mat(path: Path, names: tuple[str, ...]) -> list[np.ndarray]:
    """The named arrays of an official file."""
    try:
        if path.stat().st_size > LARGEST:
            raise CorruptError("it is larger than any official file")
        data = path.read_bytes()
        if len(data) < HEADER or data[124:128] != b"\x00\x01IM":
            raise CorruptError("no header of level 5")
        found = dict(matrices(memoryview(data)[HEADER:]))
        return [found[name] for name in names]
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}") from None
    except KeyError as error:
        raise UserError(f"{path}: truncated or corrupt (no array {error})") from None
    except (ValueError, struct.error, zlib.error, RecursionError) as error:
        raise UserError(f"{path}: truncated or corrupt ({error})") from None
