"""Flat dicts of tensors: their sections, and the bytes in which they travel."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from anchorfl.errors import UserError

Tensors = dict[str, Tensor]

FORMAT = "2"
"""Raised whenever what a message says changes its meaning, the numbers of a sketch among it."""


def section(tensors: Mapping[str, Tensor], name: str) -> Tensors:
    """The entries `name/...`, without that prefix."""
    prefix = f"{name}/"
    return {key.removeprefix(prefix): tensors[key] for key in tensors if key.startswith(prefix)}


def prefixed(name: str, tensors: Mapping[str, Tensor]) -> Tensors:
    """The opposite of `section`."""
    return {f"{name}/{key}": tensor for key, tensor in tensors.items()}


def pack(kind: str, content: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> bytes:
    """One safetensors message: tensors, and JSON content in the header under its kind."""
    return save(
        {key: tensor.detach().cpu().contiguous() for key, tensor in tensors.items()},
        metadata={kind: json.dumps(content), "format": FORMAT},
    )


def unpack(kind: str, data: bytes) -> tuple[dict[str, Any], Tensors]:
    """What `pack` wrote; nothing in the bytes is ever executed."""
    try:
        tensors = load(data)
        header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
        metadata = header["__metadata__"]
        content = json.loads(metadata[kind])
        if not isinstance(content, dict):
            raise ValueError
    except (SafetensorError, KeyError, ValueError, TypeError):
        raise UserError(f"these bytes are not a valid {kind}") from None
    if metadata.get("format") != FORMAT:
        written = metadata.get("format", "1")
        raise UserError(f"this {kind} is of format {written}; this anchorfl reads format {FORMAT}")
    return content, tensors
