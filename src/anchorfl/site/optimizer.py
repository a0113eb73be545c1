"""Clipped SGD on a client's flat state, by parameter group: encoder, prototypes, sigmas."""

from __future__ import annotations

import torch
from torch import Tensor

from anchorfl.config import Config, TrainOptions
from anchorfl.tensors import Tensors

GROUPS = ("encoder", "prototypes", "sigmas")
TINY = 1e-30


def trained(state: Tensors) -> Tensors:
    return {name: value for name, value in state.items() if value.requires_grad}


def groups(tensors: Tensors) -> dict[str, Tensors]:
    """Trained tensors by group: `sigmas` is whatever a balance trains. A group may be empty."""
    members: dict[str, Tensors] = {group: {} for group in GROUPS}
    for name, value in tensors.items():
        if name.startswith("balance/"):
            members["sigmas"][name] = value
        else:
            members["prototypes" if name == "weights/prototypes" else "encoder"][name] = value
    return members


def clip(gradients: dict[str, Tensors], options: TrainOptions) -> Tensors:
    """Scale gradients in place so that their norm is at most `train.clip_norm`; readings.

    `global`: one norm and one factor for all; `group`: each group has its own. `clip_factor` is what
    is left of the joint norm, `gradient_share_G` the group's part of its square before clipping.
    """
    filled = {name: list(members.values()) for name, members in gradients.items() if members}
    norms = {
        name: torch.linalg.vector_norm(torch.stack(torch._foreach_norm(values)))
        for name, values in filled.items()
    }
    joint = torch.linalg.vector_norm(torch.stack(list(norms.values())))
    limited = norms if options.clip == "group" else dict.fromkeys(norms, joint)
    largest = options.clip_norm or torch.inf
    factors = {name: (largest / (norm + 1e-6)).clamp(max=1.0) for name, norm in limited.items()}
    for name, values in filled.items():
        torch._foreach_mul_(values, factors[name])
    left = torch.linalg.vector_norm(torch.stack([factors[name] * norms[name] for name in norms]))
    readings = {"gradient_norm": joint, "clip_factor": (left + TINY) / (joint + TINY)}
    for name in norms:
        readings[f"clip_factor_{name}"] = factors[name]
        readings[f"gradient_share_{name}"] = (norms[name] / (joint + TINY)).square()
    return readings


def descend(state: Tensors, gradients: dict[str, Tensors], lr: Tensor, config: Config) -> None:
    """m <- momentum m + g + decay w;  w <- w - lr m. In place, many tensors at a time.

    The sigmas have a momentum of their own, a rate of their own that follows the schedule of the
    weights', and no decay.
    """
    train = config.train
    for group, members in gradients.items():
        if not members:
            continue
        rate, momentum, decay = lr, train.momentum, train.weight_decay
        if group == "sigmas":
            own, momentum = config.align.sgd(train.lr, train.momentum)
            rate, decay = lr * (own / train.lr), 0.0
        weights = [state[name] for name in members]
        moving = [state[f"momentum/{name}"] for name in members]
        torch._foreach_mul_(moving, momentum)
        torch._foreach_add_(moving, list(members.values()))
        if decay:
            torch._foreach_add_(moving, weights, alpha=decay)
        torch._foreach_add_(weights, torch._foreach_mul(moving, -rate))
