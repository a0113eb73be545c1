"""The bytes in which messages travel: safetensors with JSON in the header; no code, no pickle."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor, uint8

from anchorfl.errors import UserError
from anchorfl.tensors import Tensors

FORMAT = "6"
"""Raised whenever what a message contains changes its meaning. No other format is read."""
LONGEST_NAME = 200


def pack(kind: str, content: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> bytes:
    """One safetensors message: tensors, and JSON content in the header under its kind.

    Equal messages are equal bytes: the header, which safetensors writes in any order, is put in one.
    """
    there = {key: tensor.detach().cpu().contiguous() for key, tensor in tensors.items()}
    metadata = {kind: json.dumps(content), "format": FORMAT, "digest": digest(content, there)}
    data = memoryview(save(there, metadata=metadata))
    end = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(bytes(data[8:end]))
    header["__metadata__"] = dict(sorted(metadata.items()))
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return b"".join((len(text).to_bytes(8, "little"), text, data[end:]))


def unpack(kind: str, data: bytes) -> tuple[dict[str, Any], Tensors]:
    """What `pack` wrote; nothing in the bytes is ever executed."""
    try:
        tensors, metadata = load(data), header_of(data)
        content = json.loads(metadata[kind])
        if not isinstance(content, dict):
            raise ValueError
    except (SafetensorError, KeyError, ValueError, TypeError, RuntimeError, OverflowError):
        raise UserError(f"these bytes are not a valid {kind}") from None
    written = metadata.get("format", "1")
    if written != FORMAT:
        raise UserError(f"this {kind} is of format {written}; this anchorfl reads format {FORMAT}")
    if metadata.get("digest") != digest(content, tensors):
        raise UserError(f"this {kind} is damaged: its bytes are not those that were written")
    return content, tensors


def header_of(data: bytes) -> Any:
    """The metadata of a safetensors file."""
    return json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])["__metadata__"]


def written_digest(data: bytes) -> str:
    """The digest that a message was packed with: its name."""
    return str(header_of(data)["digest"])


def kind_of(data: bytes) -> str:
    """What a message says that it is: task, start, upload, request, description; "" for none."""
    try:
        known = header_of(data).keys() - {"format", "digest"}
        return str(*known) if len(known) == 1 else ""
    except (KeyError, ValueError, TypeError, AttributeError, RecursionError):
        return ""


def site_of(data: bytes) -> str:
    """The site that a message says it is of, read from its header alone; "" for none."""
    try:
        content = json.loads(header_of(data)[kind_of(data)])
        return str(content["site"])
    except (KeyError, ValueError, TypeError, AttributeError, RecursionError):
        return ""


def digest(content: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> str:
    """SHA-256 of a message's content and of every tensor's name, type, shape and values."""
    found = hashlib.sha256(json.dumps(content, sort_keys=True).encode())
    for name in sorted(tensors):
        value = tensors[name].detach().cpu().contiguous()
        found.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
        found.update(value.flatten().view(dtype=uint8).numpy().data)
    return found.hexdigest()


def checked_name(name: object) -> str:
    """A site's name: printable, and no longer than a line."""
    if not isinstance(name, str) or not name:
        raise UserError("a site needs a name")
    if not name.isprintable() or name != name.strip() or len(name) > LONGEST_NAME:
        raise UserError(f"a site's name must be printable and at most {LONGEST_NAME} characters long")
    return name
