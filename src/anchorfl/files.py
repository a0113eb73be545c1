"""Files that are written whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from anchorfl.errors import UserError

try:
    import fcntl
except ImportError:  # Windows has no such locks; there nobody is kept out
    fcntl = None  # type: ignore[assignment]


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """Where to write: it takes the file's place once all of it is on the disk, or vanishes."""
    temporary = path.with_name(f".{path.stem}.{os.getpid()}{path.suffix}")
    try:
        yield temporary
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        if error.filename == str(temporary):
            raise OSError(error.errno, error.strerror, str(path)) from None
        raise
    finally:
        temporary.unlink(missing_ok=True)


def remove_leftovers(folder: Path) -> None:
    """What `whole` left behind where a process was killed within it."""
    for file in folder.glob(".*.*.*"):
        if file.stem.rpartition(".")[2].isdigit():
            file.unlink(missing_ok=True)


def write_whole(path: Path, content: str | bytes) -> None:
    with whole(path) as place:
        place.write_bytes(content.encode() if isinstance(content, str) else content)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """One process at a time works in a folder; a second is refused with the first one's number.

    The lock goes with the process that holds it, however that ends.
    """
    path = folder / ".lock"
    with path.open("a+") as file:
        file.seek(0)
        if not takes_lock(file):
            raise UserError(f"{folder}: is in use by process {file.read() or 'unknown'}")
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        try:
            yield
        finally:
            path.unlink(missing_ok=True)


def takes_lock(file: IO[str]) -> bool:
    """Whether nobody else has it."""
    if fcntl is None:
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True  # a file system without locks: there nobody is kept out
    return os.fstat(file.fileno()).st_nlink > 0
