import math

import pytest
import torch
import torch.nn.functional as F

from anchorfl.objective import Views
from anchorfl.objective.losses import (
    anchor_distance,
    prototype_self_contrast,
    supervised_contrast,
)
from anchorfl.registry import BASE_TERMS, METHODS


def plain_supcon(features: torch.Tensor, labels: list[int], temperature: float) -> float:
    """Khosla et al., eq. 2, as two loops."""
    rows = features.tolist()
    total = 0.0
    for i, anchor in enumerate(rows):
        exponents = {
            j: sum(a * b for a, b in zip(anchor, other, strict=True)) / temperature
            for j, other in enumerate(rows)
            if j != i
        }
        denominator = math.log(sum(math.exp(value) for value in exponents.values()))
        partners = [j for j in exponents if labels[j] == labels[i]]
        total += -sum(exponents[j] - denominator for j in partners) / max(len(partners), 1)
    return total / len(rows)


def sample(count: int, classes: int = 3, dimension: int = 5) -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(count)
    features = F.normalize(torch.randn(count, dimension, generator=generator).double(), dim=1)
    prototypes = torch.randn(classes, dimension, generator=generator).double()
    return features, prototypes, torch.arange(count) % classes


@pytest.mark.parametrize("labels", [[0, 1, 0, 1, 2, 2], [0, 0, 0, 0, 0, 0], [0, 1, 2, 3, 4, 5]])
def test_supcon_equals_the_double_loop(labels: list[int]) -> None:
    features = sample(6)[0]
    value = supervised_contrast(features, torch.tensor(labels), torch.ones(6).double())
    assert float(value) == pytest.approx(plain_supcon(features, labels, 0.07), rel=1e-9)


def base_loss(*tensors: torch.Tensor) -> torch.Tensor:
    views = Views(*tensors)
    terms = [BASE_TERMS.get(name) for name in METHODS.get("v4").base_terms]
    return torch.stack([term.loss(views) for term in terms]).sum()


def test_base_loss_is_the_sum_that_the_mission_writes() -> None:
    features, prototypes, labels = sample(8)
    ones = torch.ones(8).double()
    classification = F.cross_entropy(features @ prototypes.T, labels)
    expected = (
        2 * classification
        + plain_supcon(features, labels.tolist(), 0.07)
        + F.cross_entropy(prototypes @ prototypes.T, torch.arange(3))
    )
    value = base_loss(features, prototypes, labels, ones)
    torch.testing.assert_close(value, expected)


def test_prototype_self_contrast_keeps_the_diagonal() -> None:
    assert float(prototype_self_contrast(100 * torch.eye(4))) == pytest.approx(0, abs=1e-6)
    assert float(prototype_self_contrast(torch.zeros(4, 4))) == pytest.approx(math.log(4))


def test_anchor_distance_is_the_mean_over_present_classes_and_dimensions() -> None:
    prototypes, anchors = torch.zeros(3, 2), torch.tensor([[1.0, 1.0], [2.0, 0.0], [9.0, 9.0]])
    labels = torch.tensor([0, 1, 1])
    assert float(anchor_distance(prototypes, anchors, labels, torch.ones(3))) == pytest.approx(
        (1 + 2) / 2
    )
    only_first = torch.tensor([1.0, 0.0, 0.0])
    assert float(anchor_distance(prototypes, anchors, labels, only_first)) == pytest.approx(1.0)


def test_padding_changes_neither_losses_nor_gradients() -> None:
    features, prototypes, labels = sample(6)
    anchors = torch.ones_like(prototypes)
    results = []
    for padding in (0, 3):
        rows = torch.cat([features, features[:padding] * -1]).requires_grad_(True)
        weights = torch.tensor([1.0] * 6 + [0.0] * padding).double()
        own = prototypes.clone().requires_grad_(True)
        padded_labels = torch.cat([labels, labels[:padding]])
        loss = base_loss(rows, own, padded_labels, weights)
        loss = loss + anchor_distance(own, anchors, padded_labels, weights.float())
        by_rows, by_prototypes = torch.autograd.grad(loss, [rows, own])
        assert not by_rows[6:].any()
        results.append((loss.detach(), by_rows[:6], by_prototypes))
    for plain, padded in zip(*results, strict=True):
        torch.testing.assert_close(plain, padded)


def test_a_batch_of_nothing_but_padding_is_finite() -> None:
    features, prototypes, labels = sample(4)
    rows = features.requires_grad_(True)
    loss = base_loss(rows, prototypes, labels, torch.zeros(4).double())
    assert torch.isfinite(loss)
    assert torch.isfinite(torch.autograd.grad(loss, rows)[0]).all()
