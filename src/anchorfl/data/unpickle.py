"""Read the pickles that CIFAR's official files are, as data: nothing in them is ever called.

A pickle is a program for a stack machine. Official files use a small part of it: lists, dicts,
strings, numbers and arrays of bytes. Only that part is carried out here; a name of Python's is a
name and no more.
"""

from __future__ import annotations

import pickletools
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from anchorfl.errors import UserError

LARGEST_FILE = 1 << 29
"""Bytes; the largest official one, CIFAR-100's training file, has 155 MB."""
TYPES = ("u1", "i4", "i8")


class RefusedError(ValueError):
    """The file does what no official one does."""


@dataclass(frozen=True)
class Name:
    """A name of Python's that the file writes; it is never looked up."""

    module: str
    name: str


@dataclass
class Array:
    """An array that is being described."""

    values: np.ndarray | None = None


@dataclass(frozen=True)
class Type:
    name: str


class Mark:
    """Where the items of the next tuple, list or dict begin on the stack."""


CORE = ("numpy.core", "numpy._core")
RECONSTRUCT = {Name(f"{core}.multiarray", "_reconstruct") for core in CORE}
FROM_BUFFER = {Name(f"{core}.numeric", "_frombuffer") for core in CORE}
DTYPE, NDARRAY, ENCODE = Name("numpy", "dtype"), Name("numpy", "ndarray"), Name("_codecs", "encode")
CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
EMPTY = {"EMPTY_DICT": dict, "EMPTY_LIST": list, "EMPTY_TUPLE": tuple}
VALUES = ["BININT", "BININT1", "BININT2", "LONG1", "INT", "LONG", "BINFLOAT"]
VALUES += ["BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8"]
BYTES = ["SHORT_BINSTRING", "BINSTRING", "SHORT_BINBYTES", "BINBYTES", "BINBYTES8", "BYTEARRAY8"]


class Machine:
    """The stack, the memo, and a method for every operation that official files use."""

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}

    def run(self, data: bytes) -> Any:
        for operation, argument, _ in pickletools.genops(data):
            name = operation.name
            if name == "STOP":
                return self.stack.pop()
            if name in VALUES:
                self.stack.append(argument)
            elif name in BYTES:
                self.stack.append(argument.encode("latin1") if isinstance(argument, str) else argument)
            elif name in CONSTANTS:
                self.stack.append(CONSTANTS[name])
            elif name in EMPTY:
                self.stack.append(EMPTY[name]())
            elif name not in ("PROTO", "FRAME"):
                self._operate(name, argument)
        raise RefusedError("it has no end")

    def _operate(self, name: str, argument: Any) -> None:
        method = getattr(self, f"on_{name.lower()}", None)
        if method is None:
            raise RefusedError(f"it uses {name}")
        method(argument)

    def on_mark(self, _: object) -> None:
        self.stack.append(Mark)

    def _items(self) -> list[Any]:
        """What lies above the last mark, which goes."""
        start = len(self.stack) - 1 - self.stack[::-1].index(Mark)
        items = self.stack[start + 1 :]
        del self.stack[start:]
        return items

    def on_tuple(self, _: object) -> None:
        self.stack.append(tuple(self._items()))

    def _last(self, count: int) -> None:
        items = tuple(self.stack[-count:])
        if len(items) < count:
            raise RefusedError("its stack is empty")
        del self.stack[-count:]
        self.stack.append(items)

    def on_tuple1(self, _: object) -> None:
        self._last(1)

    def on_tuple2(self, _: object) -> None:
        self._last(2)

    def on_tuple3(self, _: object) -> None:
        self._last(3)

    def on_append(self, _: object) -> None:
        item = self.stack.pop()
        self._top(list).append(item)

    def on_appends(self, _: object) -> None:
        items = self._items()
        self._top(list).extend(items)

    def on_setitem(self, _: object) -> None:
        value, key = self.stack.pop(), self.stack.pop()
        self._top(dict)[text(key)] = value

    def on_setitems(self, _: object) -> None:
        items = self._items()
        target = self._top(dict)
        for key, value in zip(items[::2], items[1::2], strict=True):
            target[text(key)] = value

    def _top(self, kind: type) -> Any:
        if not self.stack or not isinstance(self.stack[-1], kind):
            raise RefusedError(f"no {kind.__name__} is there to be filled")
        return self.stack[-1]

    def on_binput(self, place: int) -> None:
        self.memo[place] = self.stack[-1]

    on_long_binput = on_binput

    def on_memoize(self, _: object) -> None:
        self.memo[len(self.memo)] = self.stack[-1]

    def on_binget(self, place: int) -> None:
        self.stack.append(self.memo[place])

    on_long_binget = on_binget

    def on_global(self, words: str) -> None:
        self.stack.append(Name(*words.split(" ", 1)))

    def on_stack_global(self, _: object) -> None:
        name, module = self.stack.pop(), self.stack.pop()
        self.stack.append(Name(text(module), text(name)))

    def on_reduce(self, _: object) -> None:
        arguments, function = self.stack.pop(), self.stack.pop()
        if not isinstance(arguments, tuple):
            raise RefusedError("it calls with no tuple")
        self.stack.append(described(function, arguments))

    def on_build(self, _: object) -> None:
        """The state of an array (version, shape, type, order, bytes); that of a type is its own."""
        state = self.stack.pop()
        target = self.stack[-1]
        if isinstance(target, Array):
            _, shape, kind, order, data = state
            target.values = array(shape, kind, bool(order), data)
        elif not isinstance(target, Type):
            raise RefusedError("it sets the state of something that is no array")


def described(function: object, arguments: tuple[Any, ...]) -> object:
    """What a call stands for, where it is one of the few that arrays and bytes are written with."""
    if not isinstance(function, Name):
        raise RefusedError("it calls something without a name")
    if function == ENCODE and arguments[1:] in (("latin1",), (b"latin1",)):
        return text(arguments[0]).encode("latin1")
    if function in RECONSTRUCT and arguments[0] == NDARRAY:
        return Array()
    if function == DTYPE:
        return Type(text(arguments[0]))
    if function in FROM_BUFFER:
        data, kind, shape, order = arguments
        return Array(array(shape, kind, text(order) == "F", data))
    raise RefusedError(f"it calls {function.module}.{function.name}")


def array(shape: Any, kind: Any, by_columns: bool, data: Any) -> np.ndarray:
    """Bytes as numbers; they must be exactly as many as the shape says."""
    if not isinstance(kind, Type) or kind.name.lstrip("|<=") not in TYPES:
        raise RefusedError("its numbers are of an unknown type")
    if not isinstance(data, bytes | bytearray):
        raise RefusedError("its numbers are no bytes")
    sizes = [int(size) for size in shape]
    numbers = np.frombuffer(bytearray(data), np.dtype(kind.name.lstrip("|<=")).newbyteorder("<"))
    return numbers.reshape(sizes, order="F" if by_columns else "C")


def text(value: object) -> str:
    """Of text alone: what a few bytes nest into each other may be endless when written out."""
    if not isinstance(value, str | bytes):
        raise RefusedError("something is no text where text belongs")
    return value.decode("latin1") if isinstance(value, bytes) else value


def read_pickled_arrays(path: Path) -> dict[str, Any]:
    """The mapping in an official CIFAR file, its keys as text."""
    try:
        if path.stat().st_size > LARGEST_FILE:
            raise RefusedError("it is larger than any official file")
        content = Machine().run(path.read_bytes())
        if not isinstance(content, dict):
            raise RefusedError("it holds no mapping")
        return {
            key: value.values if isinstance(value, Array) else value for key, value in content.items()
        }
    except RefusedError as error:
        raise UserError(f"{path}: refused, not an official file ({error})") from None
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}") from None
    except Exception as error:  # a corrupt file can fail anywhere in the machine
        raise UserError(f"{path}: truncated or corrupt ({type(error).__name__})") from None
