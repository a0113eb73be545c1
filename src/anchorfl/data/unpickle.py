"""Open the pickles that CIFAR's official files are, without ever running what a file names."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from anchorfl.errors import UserError


def latin1_bytes(text: str, encoding: str) -> bytes:
    """How Python 3 writes bytes into an old pickle; no other codec is reached."""
    if encoding not in ("latin1", "latin-1"):
        raise pickle.UnpicklingError(f"codec {encoding}")
    return text.encode("latin1")


def allowed_globals() -> dict[tuple[str, str], Callable[..., Any]]:
    """Arrays and bytes need these few; lists, dicts, strings and numbers need none."""
    multiarray = np._core.multiarray  # type: ignore[attr-defined]
    allowed: dict[tuple[str, str], Callable[..., Any]] = {
        ("numpy", "ndarray"): np.ndarray,
        ("numpy", "dtype"): np.dtype,
        ("_codecs", "encode"): latin1_bytes,
    }
    for core in ("numpy.core", "numpy._core"):
        allowed[f"{core}.multiarray", "_reconstruct"] = multiarray._reconstruct
        allowed[f"{core}.multiarray", "scalar"] = multiarray.scalar
        allowed[f"{core}.numeric", "_frombuffer"] = np._core.numeric._frombuffer  # type: ignore[attr-defined]
    return allowed


class ArraysOnly(pickle.Unpickler):
    """Refuses every global but those that arrays and bytes are rebuilt with."""

    def __init__(self, file: BinaryIO) -> None:
        super().__init__(file, encoding="bytes")
        self._allowed = allowed_globals()

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in self._allowed:
            raise pickle.UnpicklingError(f"it names {module}.{name}")
        return self._allowed[module, name]


def read_pickled_arrays(path: Path) -> dict[str, Any]:
    """The mapping in an official CIFAR file, its keys as text."""
    try:
        with path.open("rb") as file:
            content = ArraysOnly(file).load()
        return {
            key.decode("latin1") if isinstance(key, bytes) else str(key): content[key]
            for key in content
        }
    except pickle.UnpicklingError as error:
        raise UserError(f"{path}: refused, not an official file ({error})") from None
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}") from None
    except Exception as error:  # a corrupt pickle can raise nearly anything
        raise UserError(f"{path}: truncated or corrupt ({type(error).__name__})") from None
