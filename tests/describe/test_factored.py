"""Sums in a half and in a quarter of their bytes."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from anchorfl.describe import (
    Sums,
    discriminant,
    factored,
    in_full,
    ridge,
    second_moments,
    with_constant,
)
from anchorfl.errors import UserError

CLASSES = 4


def rows_far_from_nought(count: int, width: int = 60) -> tuple[Tensor, Tensor]:
    """[x 1] of norm about 1 whose mean is large beside their spread, and whose spread is uneven."""
    draw = torch.Generator().manual_seed(0)
    labels = torch.arange(count) % CLASSES
    spread = 0.9 ** torch.arange(width)
    rows = (
        torch.randn(count, width, generator=draw) + torch.randn(CLASSES, width, generator=draw)[labels]
    )
    return with_constant(rows * spread / 10 + width**-0.5), torch.eye(CLASSES)[labels]


def size(moments: dict[str, Tensor]) -> int:
    return sum(value.nbytes for value in moments.values())


@pytest.mark.parametrize(("precision", "share", "error"), [("fp16", 0.55, 5e-3), ("fp8", 0.32, 0.02)])
def test_sums_travel_in_fewer_bytes_and_are_next_to_what_they_were(
    precision: str, share: float, error: float
) -> None:
    exact = second_moments(*rows_far_from_nought(500))
    short = factored(exact, precision, 60)
    assert size(short) < share * size(exact)
    before, after = Sums.of(exact), Sums.of(in_full(short))
    torch.testing.assert_close(after.counts, before.counts)
    torch.testing.assert_close(after.within[0], before.within[0], rtol=1e-3, atol=1e-6)
    s, t = before.within[1], after.within[1]
    units = s.diagonal().sqrt()
    raised = 2e-8 * before.mean_square
    torch.testing.assert_close(t.diagonal(), s.diagonal(), rtol=1e-4, atol=raised)
    assert ((t - s) / units / units[:, None]).abs().max() < error


def test_in_32_bits_nothing_changes() -> None:
    exact = second_moments(*rows_far_from_nought(50))
    assert factored(exact, "fp32", 60) is exact
    assert in_full(exact) is exact


@pytest.mark.parametrize("precision", ["fp16", "fp8"])
@pytest.mark.parametrize("count", [1, 3, 40, 2000])
def test_rounding_makes_no_direction_negative(precision: str, count: int) -> None:
    """Also of fewer rows than numbers, where most directions have no spread at all."""
    full = in_full(factored(second_moments(*rows_far_from_nought(count)), precision, 60))
    sums = Sums.of(full)
    assert float(torch.linalg.eigvalsh(sums.within[1])[0]) > -1e-6 * sums.mean_square


@pytest.mark.parametrize("precision", ["fp16", "fp8"])
def test_what_tells_classes_apart_survives(precision: str) -> None:
    """The penalty that the sums ask for and what they explain; X'X in 16 bits has lost them."""
    rows, targets = rows_far_from_nought(4000)
    seen, new = (rows[:2000], targets[:2000]), (rows[2000:], targets[2000:])
    exact = Sums.of(second_moments(*seen))
    short = Sums.of(in_full(factored(second_moments(*seen), precision, 60)))
    assert short.fit.explained == pytest.approx(exact.fit.explained, abs=0.01)

    def right(sums: Sums) -> float:
        scores = new[0] @ discriminant(sums, sums.fit.penalty)
        return float((scores.argmax(dim=1) == new[1].argmax(dim=1)).float().mean())

    assert right(short) == pytest.approx(right(exact), abs=0.01)
    rounded = {name: (value / 2000).half().float() for name, value in second_moments(*seen).items()}
    assert Sums.of({name: value * 2000 for name, value in rounded.items()}).fit.explained < (
        exact.fit.explained - 0.05
    )


def test_a_site_without_images_of_some_classes_or_of_all() -> None:
    rows, targets = rows_far_from_nought(80)
    own = targets[:, 0] > 0
    for kept in (own, own & False):
        exact = second_moments(rows[kept], targets[kept])
        full = in_full(factored(exact, "fp8", 60))
        assert all(value.isfinite().all() for value in full.values())
        torch.testing.assert_close(full["cross"].float(), exact["cross"], rtol=1e-3, atol=1e-5)
        torch.testing.assert_close(full["triangle"].float(), exact["triangle"], rtol=0.05, atol=0.05)


def rows_in_noise(count: int, width: int = 60) -> tuple[Tensor, Tensor]:
    """Classes that differ little, beside a few directions in which all differ much."""
    draw = torch.Generator().manual_seed(0)
    labels = torch.arange(count) % CLASSES
    centres, directions = (torch.randn(k, width, generator=draw) for k in (CLASSES, 12))
    rows = 0.1 * centres[labels] + torch.randn(count, 12, generator=draw) @ directions
    rows = rows + 0.3 * torch.randn(count, width, generator=draw)
    return 0.02 * rows + width**-0.5, torch.eye(CLASSES)[labels]


@pytest.mark.parametrize("precision", ["fp16", "fp8"])
@pytest.mark.parametrize("spread", [1e-2, 1e-3, 1e-4, 0.0])
def test_numbers_that_hardly_vary_leave_the_others_alone(precision: str, spread: float) -> None:
    """An encoder that maps every image next to one feature: its scatter is what rounding made."""
    draw = torch.Generator().manual_seed(1)
    rows, targets = rows_in_noise(4000)
    flat = 0.1 + 0.1 * torch.rand(64, generator=draw)
    flat = flat * (1 + spread * torch.randn(4000, 64, generator=draw))
    rows = with_constant(torch.cat([flat, rows], dim=1))
    exact = second_moments(rows[:2000], targets[:2000])

    def right(moments: dict[str, Tensor]) -> float:
        sums = Sums.of(moments)
        scores = rows[2000:] @ ridge(sums, 1e-4 * sums.mean_square)
        return float((scores.argmax(dim=1) == targets[2000:].argmax(dim=1)).float().mean())

    assert right(exact) > 0.8
    loss = 0.01 if precision == "fp16" else 0.03
    assert right(in_full(factored(exact, precision, 60))) > right(exact) - loss


def test_numbers_that_go_together_keep_16_bits() -> None:
    """40 numbers in 20 directions, and a hundredth beside them, which 8 bits would drown."""
    draw = torch.Generator().manual_seed(2)
    together = torch.randn(500, 20, generator=draw) @ torch.randn(20, 40, generator=draw)
    together += 0.04 * torch.randn(500, 40, generator=draw)
    rows = torch.cat([together, torch.randn(500, 30, generator=draw)], dim=1)
    exact = second_moments(with_constant(rows), torch.ones(500, 1))

    small = torch.linalg.eigh(Sums.of(exact).within[1][:40, :40])[1][:, :20]

    def least(moments: dict[str, Tensor]) -> float:
        within = Sums.of(moments).within[1][:40, :40]
        return float((small.T @ within @ small).diagonal().mean())

    short, shortest = (factored(exact, "fp8", principal) for principal in (30, 70))
    assert size(shortest) < size(short) < 0.5 * size(exact)
    assert least(in_full(short)) == pytest.approx(least(exact), rel=0.02)
    assert least(in_full(shortest)) > 3 * least(exact)


@pytest.mark.parametrize("name", ["counts", "means", "norms", "factor16", "factor8"])
@pytest.mark.parametrize("change", [lambda value: value[:-1], lambda value: value.flatten()[0]])
def test_parts_that_do_not_fit_are_an_error(name: str, change: Callable[[Tensor], Tensor]) -> None:
    short = factored(second_moments(*rows_far_from_nought(50)), "fp8", principal=20)
    short[name] = change(short[name])
    with pytest.raises(UserError, match="do not fit"):
        in_full(short)
