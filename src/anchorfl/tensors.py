"""Flat dicts of tensors, by name: a client's state, a network's weights, an upload's statistics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    import torch

Tensor: TypeAlias = "torch.Tensor"
"""For annotations alone: a formula that names it imports no torch."""
Tensors = dict[str, Tensor]


def section(tensors: Mapping[str, Tensor], name: str) -> Tensors:
    """The entries `name/...`, without that prefix."""
    prefix = f"{name}/"
    return {key.removeprefix(prefix): tensors[key] for key in tensors if key.startswith(prefix)}


def prefixed(name: str, tensors: Mapping[str, Tensor]) -> Tensors:
    """The opposite of `section`."""
    return {f"{name}/{key}": tensor for key, tensor in tensors.items()}


class Encoder(NamedTuple):
    """Weights, and the name of the network that they belong to."""

    name: str
    weights: Tensors


Encoders = Sequence[Encoder]
