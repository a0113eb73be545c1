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


class Name(str):
    """A name of Python's that the file writes, `module name`; it is never looked up."""


@dataclass
class Array:
    """An array that is being described."""

    values: np.ndarray | None = None


@dataclass(frozen=True)
class Type:
    """The type of an array's numbers, one of `TYPES`."""

    name: str


class Mark:
    """Where the items of the next tuple, list or dict begin on the stack."""


RECONSTRUCT = ("numpy.core.multiarray _reconstruct", "numpy._core.multiarray _reconstruct")
CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
EMPTY = {"EMPTY_DICT": dict, "EMPTY_LIST": list, "EMPTY_TUPLE": tuple}
VALUES = ["BININT", "BININT1", "BININT2", "LONG1", "INT", "LONG", "BINFLOAT"]
VALUES += ["BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8"]
BYTES = ["SHORT_BINSTRING", "BINSTRING", "SHORT_BINBYTES", "BINBYTES", "BINBYTES8"]


class Machine:
    """The stack, the memo, and the operations that official files use."""

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
                self.operate(name, argument)
        raise RefusedError("it has no end")

    def operate(self, name: str, argument: Any) -> None:
        stack, memo = self.stack, self.memo
        match name:
            case "MARK":
                stack.append(Mark)
            case "TUPLE":
                stack.append(tuple(self.since_mark()))
            case "TUPLE1" | "TUPLE2" | "TUPLE3":
                stack.append(tuple(self.last(int(name[-1]))))
            case "APPEND" | "APPENDS":
                items = self.last(1) if name == "APPEND" else self.since_mark()
                self.top(list).extend(items)
            case "SETITEM" | "SETITEMS":
                items = self.last(2) if name == "SETITEM" else self.since_mark()
                self.top(dict).update(zip(map(text, items[::2]), items[1::2], strict=True))
            case "BINPUT" | "LONG_BINPUT":
                memo[argument] = stack[-1]
            case "MEMOIZE":
                memo[len(memo)] = stack[-1]
            case "BINGET" | "LONG_BINGET":
                stack.append(memo[argument])
            case "GLOBAL":
                stack.append(Name(argument))
            case "STACK_GLOBAL":
                stack.append(Name(" ".join(map(text, self.last(2)))))
            case "REDUCE":
                stack.append(described(*self.last(2)))
            case "BUILD":
                set_state(*stack[-2:])
                stack.pop()
            case _:
                raise RefusedError(f"it uses {name}")

    def since_mark(self) -> list[Any]:
        """What lies above the last mark, which goes."""
        items = self.last(self.stack[::-1].index(Mark))
        self.stack.pop()
        return items

    def last(self, count: int) -> list[Any]:
        """The uppermost items, taken off."""
        start = len(self.stack) - count
        if start < 0:
            raise RefusedError("its stack is empty")
        items = self.stack[start:]
        del self.stack[start:]
        return items

    def top(self, kind: type) -> Any:
        if not self.stack or not isinstance(self.stack[-1], kind):
            raise RefusedError(f"no {kind.__name__} is there to be filled")
        return self.stack[-1]


def described(function: object, arguments: object) -> object:
    """What a call stands for, where it is one of the few that arrays and bytes are written with."""
    if not isinstance(function, Name) or not isinstance(arguments, tuple):
        raise RefusedError("it calls something without a name or with no tuple")
    if function == "_codecs encode" and arguments[1:] in (("latin1",), (b"latin1",)):
        return text(arguments[0]).encode("latin1")
    if function in RECONSTRUCT and arguments[0] == "numpy ndarray":
        return Array()
    if function == "numpy dtype" and (name := text(arguments[0]).lstrip("|<=")) in TYPES:
        return Type(name)
    raise RefusedError(f"it calls {function}")


def set_state(target: object, state: Any) -> None:
    """The state of an array (version, shape, type, order, bytes); that of a type is its own.

    The bytes must be exactly as many as the shape says.
    """
    if isinstance(target, Array):
        _, shape, kind, by_columns, data = state
        if not isinstance(kind, Type) or not isinstance(data, bytes):
            raise RefusedError("its numbers are no bytes, or of an unknown type")
        numbers = np.frombuffer(bytearray(data), f"<{kind.name}")
        target.values = numbers.reshape([int(size) for size in shape], order="F" if by_columns else "C")
    elif not isinstance(target, Type):
        raise RefusedError("it sets the state of something that is no array")


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
