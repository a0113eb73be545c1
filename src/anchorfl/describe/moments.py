"""Second moments of rows and labels: clients send sums, and a server regresses on their total."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce

import torch
import torch.nn.functional as F
from torch import Tensor

from anchorfl.tensors import Tensors


def second_moments(rows: Tensor, targets: Tensor) -> Tensors:
    """X'X, of which the triangle on and above the diagonal is sent, and X'Y."""
    gram = rows.T @ rows
    return {"triangle": gram[triangle(len(gram), gram.device)], "cross": rows.T @ targets}


LARGEST_HALF = 2.0**15


def in_half(moments: Tensors) -> Tensors:
    """Sums in 16 bits, as shares of the largest, and what a share is worth: half the bytes."""
    largest = torch.stack([value.abs().amax() for value in moments.values()]).amax()
    scale = largest.clamp(min=1e-30) / LARGEST_HALF
    return {**{name: (value / scale).half() for name, value in moments.items()}, "scale": scale}


def in_full(moments: Tensors) -> Tensors:
    """The sums themselves, however they came."""
    if "scale" not in moments:
        return moments
    scale = moments["scale"].float()
    return {name: value.float() * scale for name, value in moments.items() if name != "scale"}


def triangle(width: int, device: torch.device) -> Tensor:
    return torch.ones(width, width, dtype=torch.bool, device=device).triu()


def summed(moments: Iterable[Tensors]) -> Tensors:
    """Of all rows together, wherever they are."""
    return reduce(added, moments)


def ridge(moments: Tensors, share: float) -> Tensor:
    """W ~ (X'X + r I)^-1 X'Y, r a share of the mean of X'X's diagonal.

    Scaled so that x W at the row's own class, tr(W' X'Y) / n, is 1 on average: scores then mean the
    same for ten classes and for a hundred. The sums are exact, so W does not depend on how the rows
    are spread over clients.
    """
    cross = wide(moments["cross"])
    penalised, _ = with_penalty(moments, share)
    weights: Tensor = torch.linalg.solve(penalised, cross)
    true_score = (weights * cross).sum() / cross[-1].sum().clamp(min=1)
    return (weights / true_score.clamp(min=1e-6)).float().contiguous()


def discriminant(moments: Tensors, share: float) -> Tensor:
    """Linear discriminant analysis on sums: W for rows [x 1], as ridge's.

    Scores are x S^-1 m_c - m_c' S^-1 m_c / 2 + log(n_c / n), less their mean over the classes, S the
    covariance within classes, (X'X - sum_c n_c m_c m_c') / n, its diagonal raised by a share of its
    mean (Friedman, 1989). Scaled so that a row's own class has 1 on average; a class without samples
    has 0 everywhere.
    """
    cross = wide(moments["cross"])
    counts = cross[-1]
    rows, known = counts.sum().clamp(min=1), counts > 0
    means, within = within_classes(moments)
    raised = share * within.diagonal().mean().clamp(min=1e-12)
    slopes = torch.linalg.solve(within + raised * torch.eye(len(within)).to(within), means)
    levels = (counts.clamp(min=1) / rows).log() - (means * slopes).sum(dim=0) / 2
    weights = torch.cat([slopes, levels[None]]) * known
    weights = (weights - weights.sum(dim=1, keepdim=True) / known.sum().clamp(min=1)) * known
    if known.sum() == 1:
        weights[-1] = known.to(weights)
    true_score = (weights * cross).sum() / rows
    return (weights / true_score.clamp(min=1e-6)).float().contiguous()


def within_classes(moments: Tensors) -> tuple[Tensor, Tensor]:
    """Class means, D x C, and S = (X'X - sum_c n_c m_c m_c') / n, D x D."""
    cross = wide(moments["cross"])
    sums, counts = cross[:-1], cross[-1]
    means = sums / counts.clamp(min=1)
    gram = full_gram(moments["triangle"], len(cross))[:-1, :-1]
    return means, (gram - means @ sums.T) / counts.sum().clamp(min=1)


def explained(moments: Tensors, share: float) -> float:
    """R^2 of that regression on rows it has not seen, by generalised cross-validation, from 0 to 0.95.

    1 - (RSS / TSS) / (1 - df / n)^2, with df = tr(X'X (X'X + r I)^-1) and, for unit rows Y,
    RSS = n - tr(W'X'Y) - r |W|^2 (Golub, Heath and Wahba, 1979).
    """
    cross = wide(moments["cross"])
    penalised, size = with_penalty(moments, share)
    inverse = torch.linalg.inv(penalised)
    weights = inverse @ cross
    counts = cross[-1]
    rows = counts.sum().clamp(min=1)
    freedom = len(cross) - size * inverse.trace()
    left = rows - (weights * cross).sum() - size * weights.square().sum()
    total = rows - counts.square().sum() / rows
    share_left = left / total.clamp(min=1e-12) / (1 - freedom / rows).clamp(min=1e-6) ** 2
    return float((1 - share_left).clamp(0, 0.95))


def with_penalty(moments: Tensors, share: float) -> tuple[Tensor, Tensor]:
    """X'X + r I, and r."""
    gram = full_gram(moments["triangle"], len(moments["cross"]))
    size = share * gram.diagonal().mean().clamp(min=1e-12)
    return gram + size * torch.eye(len(gram), dtype=gram.dtype, device=gram.device), size


def full_gram(half: Tensor, width: int) -> Tensor:
    """X'X, width x width, of the triangle that was sent."""
    values = wide(half)
    mask = triangle(width, values.device)
    gram = values.new_zeros(mask.shape)
    gram[mask] = values
    return gram + gram.triu(1).T


def added(first: Tensors, second: Tensors) -> Tensors:
    return {name: wide(value) + wide(second[name]) for name, value in first.items()}


def wide(values: Tensor) -> Tensor:
    """In double precision, which Apple's GPUs do not have."""
    return (values.cpu() if values.device.type == "mps" else values).double()


def with_constant(rows: Tensor) -> Tensor:
    """A last column of ones: with targets its moments are the counts of the classes."""
    return F.pad(rows, (0, 1), value=1.0)
