"""The losses of the methods, as pure functions of tensors.

f: N x d L2-normalised features, y: N labels, P: C x d prototypes (not normalised), w: N sample
weights. A sample of weight 0 is padding: it changes neither the value nor any gradient.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

SUPCON_TEMPERATURE = 0.07
EXCLUDED = -1e9


def weighted_mean(values: Tensor, weights: Tensor) -> Tensor:
    """sum_i w_i v_i / sum_i w_i, and 0 where all weights are 0."""
    return (values * weights).sum() / weights.sum().clamp(min=1e-12)


def cross_entropy(logits: Tensor, labels: Tensor, weights: Tensor) -> Tensor:
    """Weighted mean over samples of -log softmax(logits)_y."""
    return weighted_mean(F.cross_entropy(logits, labels, reduction="none"), weights)


def supervised_contrast(
    features: Tensor,
    labels: Tensor,
    weights: Tensor,
    temperature: float = SUPCON_TEMPERATURE,
    bank: Tensor | None = None,
) -> Tensor:
    """SupCon, the form with the mean outside the logarithm; a bank adds M further negatives b.

    mean_i of -1/|P(i)| sum_{p in P(i)} log( exp(f_i f_p / t) / sum_a exp(f_i f_a / t) ), a over all
    other rows and the bank, P(i) all other rows with the label of i. A row without a partner
    contributes 0. Source: Khosla et al., 2020, eq. 2; the bank: the code of diary 004's V6.
    """
    similarity = features @ features.T / temperature
    itself = torch.eye(len(features), dtype=torch.bool, device=features.device)
    excluded = itself | (weights == 0)
    logits = similarity.masked_fill(excluded, EXCLUDED)
    if bank is not None:
        logits = torch.cat([logits, features @ bank.T / temperature], dim=1)
    log_share = F.log_softmax(logits, dim=1)[:, : len(features)]
    partners = (labels[:, None] == labels[None, :]) & ~excluded
    per_row = (log_share * partners).sum(dim=1) / partners.sum(dim=1).clamp(min=1)
    return -weighted_mean(per_row, weights)


def view_contrast(features: Tensor, weights: Tensor, temperature: float) -> Tensor:
    """Each view's partner against the views of all other images: no label is read.

    mean_i of -log( exp(g_i g_j / t) / sum_a exp(g_i g_a / t) ), j the other view of i, a over all other
    rows, g the first quarter of f, normalised; rows 0..N/2-1 are first views, the rest second ones.
    Sources: SimCLR, Chen et al., 2020, eq. 1; a part of the features in place of a projection, so that
    the others keep what views differ in: DirectCLR, Jing et al., 2021.
    """
    features = F.normalize(features[:, : max(features.shape[1] // 4, 1)], dim=1)
    itself = torch.eye(len(features), dtype=torch.bool, device=features.device)
    similarity = features @ features.T / temperature
    logits = similarity.masked_fill(itself | (weights == 0), EXCLUDED)
    partners = torch.arange(len(features), device=features.device).roll(len(features) // 2)
    return cross_entropy(logits, partners, weights)


def prototype_self_contrast(prototypes: Tensor) -> Tensor:
    """CE(P P', 0..C-1), the diagonal kept: each prototype is nearest to itself."""
    classes = torch.arange(len(prototypes), device=prototypes.device)
    return F.cross_entropy(prototypes @ prototypes.T, classes)


def bank_contrast(features: Tensor, bank: Tensor, weights: Tensor, temperature: float) -> Tensor:
    """A of V6 as diary 004 words it: each view's partner against a public bank of M features b.

    mean_i of -log( exp(f_i f_j / t) / (exp(f_i f_j / t) + sum_m exp(f_i b_m / t)) ), where j is the
    other view of i; rows 0..N/2-1 are first views, the rest second views in the same order. Diary 004.
    """
    half = len(features) // 2
    partners = torch.cat([features[half:], features[:half]])
    positive = (features * partners).sum(dim=1, keepdim=True)
    logits = torch.cat([positive, features @ bank.T], dim=1) / temperature
    return cross_entropy(logits, torch.zeros_like(logits[:, 0], dtype=torch.int64), weights)


def batch_anchor_distance(
    prototypes: Tensor, anchors: Tensor, labels: Tensor, weights: Tensor
) -> Tensor:
    """The later form of A: mean over the batch's classes, and over dimensions, of (P - anchor)^2."""
    counts = weights.new_zeros(len(prototypes))
    present = (counts.index_add(0, labels, weights) > 0).to(prototypes.dtype)
    return weighted_mean((prototypes - anchors).square().mean(dim=1), present)


def class_mean_distance(features: Tensor, means: Tensor, labels: Tensor, weights: Tensor) -> Tensor:
    """Weighted mean over samples of |f - m_y|^2 / d, over those whose class has a mean (a row not 0).

    Source: FedProto, Tan et al., 2022, the regularising term.
    """
    own = means[labels]
    distances = (features - own).square().mean(dim=1)
    return weighted_mean(distances, weights * own.any(dim=1))
