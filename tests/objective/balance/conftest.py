"""Frozen losses, and descent of a balance's own tensors on them."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from anchorfl.objective import Balance, ClientFacts, Losses
from anchorfl.tensors import Tensors


def facts(class_counts: Sequence[int] | Tensor, batches: int = 4) -> ClientFacts:
    return ClientFacts(torch.as_tensor(class_counts), batches)


def losses(base: float, align: float, classification: float = 1.0) -> Losses:
    return Losses(torch.tensor(base), torch.tensor(align), torch.tensor(classification))


def settled(balance: Balance, base: float, align: float, s: float, steps: int = 4000) -> Tensors:
    """The balance's state after plain descent on constant losses."""
    state, factor = balance.init(facts([5, 5])), torch.tensor(s)
    moving = [value for value in state.values() if value.requires_grad]
    for _ in range(steps):
        loss, kept = balance.loss(losses(base, align), state, factor)
        gradients = torch.autograd.grad(loss, moving) if moving else []
        with torch.no_grad():
            for value, gradient in zip(moving, gradients, strict=True):
                value -= 0.05 * gradient
            for name, value in kept.items():
                state[name].copy_(value)
    return {name: value.detach() for name, value in state.items()}
