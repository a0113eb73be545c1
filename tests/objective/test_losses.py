import math

import pytest
import torch
import torch.nn.functional as F

from anchorfl.methods import METHODS
from anchorfl.objective import BASE_TERMS, Views
from anchorfl.objective.losses import (
    batch_anchor_distance,
    prototype_self_contrast,
    supervised_contrast,
)
from anchorfl.settings import resolve


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


def test_the_align_loss_is_the_mean_over_all_classes_or_the_batchs_and_dimensions() -> None:
    prototypes, anchors = torch.zeros(3, 2), torch.tensor([[1.0, 1.0], [2.0, 0.0], [9.0, 9.0]])
    labels = torch.tensor([0, 1, 1])
    for weights, of_batch in ((torch.ones(3), (1 + 2) / 2), (torch.tensor([1.0, 0.0, 0.0]), 1.0)):
        views = Views(torch.zeros(3, 2), prototypes, labels, weights)
        for classes, wanted in (("batch", of_batch), ("all", (1 + 2 + 81) / 3)):
            target = resolve("v7", {"align.classes": classes}).target
            assert target is not None
            assert float(target.loss(views, anchors)) == pytest.approx(wanted)
    assert resolve("v12", {}).target == resolve("v7", {"align.classes": "all"}).target


def test_a_bank_adds_negatives_to_the_supervised_contrast() -> None:
    features, _, labels = sample(6)
    bank = F.normalize(torch.randn(3, features.shape[1], dtype=torch.float64), dim=1)
    wanted = []
    for i in range(6):
        others = [j for j in range(6) if j != i]
        total = sum(math.exp(float(features[i] @ features[j]) / 0.07) for j in others)
        total += sum(math.exp(float(features[i] @ row) / 0.07) for row in bank)
        partners = [j for j in others if labels[j] == labels[i]]
        shares = [math.exp(float(features[i] @ features[j]) / 0.07) / total for j in partners]
        wanted.append(-sum(map(math.log, shares)) / max(len(partners), 1))
    views = Views(features, torch.zeros(3, 2), labels, torch.ones(6).double())
    target = resolve("v6-code", {}).target
    assert target is not None
    assert float(target.loss(views, bank)) == pytest.approx(sum(wanted) / 6, rel=1e-6)


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
        loss = loss + batch_anchor_distance(own, anchors, padded_labels, weights.float())
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
