import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import Ridge

from anchorfl.describe import Sums, discriminant, ridge, second_moments, summed, with_constant
from anchorfl.describe.regression import HALF_A_DECADE, unexplained


def test_ridge_of_sums_is_ridge_of_all_rows_and_a_true_class_scores_one_on_average() -> None:
    draw = torch.Generator().manual_seed(0)
    rows = with_constant(torch.randn(40, 6, generator=draw))
    labels = torch.randint(3, (40,), generator=draw)
    classes = torch.eye(3)[labels]
    parts = [second_moments(rows[a:b], classes[a:b]) for a, b in ((0, 3), (3, 21), (21, 40))]
    matrix = ridge(Sums.of(summed(parts)), 0.05)
    model = Ridge(alpha=0.05 * 40, solver="cholesky")
    model.fit(rows[:, :-1].double().numpy(), classes.double().numpy())
    wanted = torch.from_numpy(model.predict(rows[:, :-1].double().numpy()))
    own = torch.arange(40), labels
    torch.testing.assert_close(
        (rows @ matrix).double(), wanted / wanted[own].mean(), atol=1e-5, rtol=1e-4
    )
    assert float((rows @ matrix)[own].mean()) == pytest.approx(1, abs=1e-5)


def test_discriminant_of_sums_is_that_of_all_rows() -> None:
    """Against scikit-learn, whose shrinkage mixes S and its mean diagonal: (1 - a) S + a d I."""
    draw = torch.Generator().manual_seed(0)
    labels = torch.randint(3, (60,), generator=draw)
    rows = torch.randn(60, 5, generator=draw) + torch.randn(3, 5, generator=draw)[labels]
    parts = [
        second_moments(with_constant(rows[i]), torch.eye(4)[labels[i]])
        for i in (labels == 0, labels == 1, labels == 2)
    ]
    raised = 0.25
    theirs = LinearDiscriminantAnalysis(solver="lsqr", shrinkage=raised / (1 + raised))
    wanted = torch.from_numpy(theirs.fit(rows.double(), labels).decision_function(rows.double()))
    wanted = wanted * (1 / (1 + raised)) + (torch.bincount(labels) / 60).log() * (raised / (1 + raised))
    wanted = wanted - wanted.mean(dim=1, keepdim=True)
    own = torch.arange(60), labels
    sums = Sums.of(summed(parts))
    scores = with_constant(rows) @ discriminant(sums, raised * sums.mean_variance)
    torch.testing.assert_close(
        scores[:, :3].double(), wanted / wanted[own].mean(), atol=1e-4, rtol=1e-3
    )
    assert float(scores[own].mean()) == pytest.approx(1, abs=1e-5)
    assert scores[:, 3].abs().max() == 0  # nobody has this class


def test_a_discriminant_of_one_class_answers_it() -> None:
    rows = with_constant(torch.randn(9, 4))
    sums = Sums.of(second_moments(rows, torch.eye(3)[torch.full((9,), 2)]))
    for penalty in (0.1, sums.fit.penalty):
        assert ((rows @ discriminant(sums, penalty)).argmax(dim=1) == 2).all()


def noisy_classes(count: int, width: int, noise: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Rows [x 1] about four centres, and their classes; some directions hold more than others."""
    draw = torch.Generator().manual_seed(0)
    labels = torch.randint(4, (count,), generator=draw)
    centres = torch.randn(4, width, generator=draw)
    rows = centres[labels] + noise * torch.randn(count, width, generator=draw)
    return with_constant(rows * torch.logspace(0, -1.5, width)), torch.eye(4)[labels]


def test_what_is_unexplained_is_what_is_wrong_on_rows_not_seen() -> None:
    """Against new rows of the same kind; on its own rows a regression explains more."""
    rows, classes = noisy_classes(6000, 60, 3.0)
    sums = Sums.of(second_moments(rows[:300], classes[:300]))
    penalty = 0.001 * sums.mean_square
    model = Ridge(alpha=penalty * 300, solver="cholesky")
    model.fit(rows[:300, :-1].double().numpy(), classes[:300].double().numpy())

    def r2(some: slice) -> float:
        left = classes[some].double() - torch.from_numpy(
            model.predict(rows[some, :-1].double().numpy())
        )
        spread = classes[some] - classes[some].mean(dim=0)
        return 1 - float(left.square().sum() / spread.square().sum())

    new, own = r2(slice(300, None)), r2(slice(300))
    assert own - new > 0.1
    assert 1 - unexplained(sums, penalty) == pytest.approx(new, abs=0.04)


@pytest.mark.parametrize("count", [200, 1000, 4000])
def test_the_penalty_that_sums_ask_for_is_near_the_best_for_rows_not_seen(count: int) -> None:
    """Many rows want little; few, beside many numbers, a lot: no fixed penalty serves both."""
    rows, classes = noisy_classes(8000, 150, 4.0)
    sums = Sums.of(second_moments(rows[:count], classes[:count]))

    def right(penalty: float) -> float:
        scores = rows[4000:] @ discriminant(sums, penalty)
        return float((scores.argmax(dim=1) == classes[4000:].argmax(dim=1)).float().mean())

    unit = sums.mean_square
    best = max(right(unit * 10 ** (step / 2)) for step in range(-8, 5))
    assert right(sums.fit.penalty) > best - 0.005
    errors = [unexplained(sums, sums.fit.penalty * HALF_A_DECADE**step) for step in range(3)]
    assert errors[1] == min(errors) == pytest.approx(1 - sums.fit.explained)


def test_few_rows_ask_for_more_than_many() -> None:
    rows, classes = noisy_classes(4000, 150, 4.0)
    few, many = (Sums.of(second_moments(rows[:n], classes[:n])) for n in (100, 4000))
    assert few.fit.penalty > 5 * many.fit.penalty
    assert few.fit.explained < many.fit.explained


@pytest.mark.parametrize(
    ("count", "width", "noise"), [(3000, 120, 1.0), (3000, 500, 0.3), (100, 300, 1.0)]
)
def test_a_penalty_covers_what_rounding_has_left(count: int, width: int, noise: float) -> None:
    """Sums rounded to 11 bits, of rows that lie in fewer directions than they have numbers."""
    draw = torch.Generator().manual_seed(0)
    rows, classes = noisy_classes(count, 20, noise)
    flat = rows[:, :20] @ torch.randn(20, width, generator=draw)
    flat = with_constant(torch.nn.functional.normalize(flat + 5, dim=1))
    moments = second_moments(flat, classes)
    sums = Sums.of({name: (value / count).half().float() * count for name, value in moments.items()})
    for squares in (sums.covariance, sums.within[1]):
        least = float(torch.linalg.eigvalsh(squares)[0])
        assert least < 0
        assert sums.fit.penalty > -least
    assert unexplained(sums, sums.fit.penalty / 1000) == math.inf
    own = (flat @ discriminant(sums, sums.fit.penalty)).argmax(dim=1) == classes.argmax(dim=1)
    assert own.float().mean() > 0.8


def nothing() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.zeros(0, 5), torch.zeros(0, 3)


def zeros() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.zeros(6, 5), torch.eye(3).repeat(2, 1)


def equal() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.full((6, 5), 0.3), torch.eye(3).repeat(2, 1)


def one() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.tensor([[0.1, 0.2, 0.3]]), torch.tensor([[0.0, 1.0]])


@pytest.mark.parametrize("make", [nothing, zeros, equal, one])
def test_sums_of_which_nothing_is_told_give_finite_scores(make: Callable[[], Any]) -> None:
    rows, classes = make()
    sums = Sums.of(second_moments(with_constant(rows), classes))
    for penalty in (sums.fit.penalty, 0.03 * sums.mean_variance, 0.001 * sums.mean_square):
        assert discriminant(sums, penalty).isfinite().all()
        assert ridge(sums, penalty).isfinite().all()


def test_where_nothing_is_told_all_scores_are_zero() -> None:
    sums = Sums.of(second_moments(torch.zeros(3, 4), torch.zeros(3, 2)))
    assert sums.fit.explained == pytest.approx(0, abs=1e-9)
    assert ridge(sums, sums.fit.penalty).abs().max() == 0
