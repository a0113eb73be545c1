"""Messages between processes: a kind and bytes, over pipes; who carries them is the engine."""

from __future__ import annotations

import struct
import subprocess
import sys
from typing import BinaryIO

from tests.conftest import ROOT


def write(pipe: BinaryIO, kind: str, *parts: bytes) -> None:
    pipe.write(struct.pack("<16sI", kind.encode(), len(parts)))
    for part in parts:
        pipe.write(struct.pack("<Q", len(part)) + part)
    pipe.flush()


def read(pipe: BinaryIO) -> tuple[str, list[bytes]]:
    head = pipe.read(20)
    if not head:
        return "end", []
    kind, count = struct.unpack("<16sI", head)
    parts = [pipe.read(struct.unpack("<Q", pipe.read(8))[0]) for _ in range(count)]
    return kind.rstrip(b"\0").decode(), parts


class Process:
    """A process of its own that answers messages."""

    def __init__(self, module: str, *words: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", f"tests.seam.{module}", *words],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def tell(self, kind: str, *parts: bytes) -> None:
        assert self.process.stdin is not None
        write(self.process.stdin, kind, *parts)

    def answer(self) -> list[bytes]:
        assert self.process.stdout is not None
        return read(self.process.stdout)[1]

    def end(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        assert self.process.wait(60) == 0
