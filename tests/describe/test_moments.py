import pytest
import torch
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import Ridge

from anchorfl.describe import discriminant, explained, ridge, second_moments, summed, with_constant


def test_ridge_of_sums_is_ridge_of_all_rows_and_a_true_class_scores_one_on_average() -> None:
    draw = torch.Generator().manual_seed(0)
    rows = with_constant(torch.randn(40, 6, generator=draw))
    labels = torch.randint(3, (40,), generator=draw)
    classes = torch.eye(3)[labels]
    parts = [second_moments(rows[a:b], classes[a:b]) for a, b in ((0, 3), (3, 21), (21, 40))]
    matrix = ridge(summed(parts), 0.05)
    strength = 0.05 * float(rows.square().sum() / 7)
    model = Ridge(alpha=strength, fit_intercept=False, solver="cholesky")
    model.fit(rows.double().numpy(), classes.double().numpy())
    wanted = torch.from_numpy(model.predict(rows.double().numpy()))
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
    scores = with_constant(rows) @ discriminant(summed(parts), raised)
    torch.testing.assert_close(
        scores[:, :3].double(), wanted / wanted[own].mean(), atol=1e-4, rtol=1e-3
    )
    assert float(scores[own].mean()) == pytest.approx(1, abs=1e-5)
    assert scores[:, 3].abs().max() == 0  # nobody has this class


def test_a_discriminant_of_one_class_answers_it() -> None:
    rows = with_constant(torch.randn(9, 4))
    matrix = discriminant(second_moments(rows, torch.eye(3)[torch.full((9,), 2)]), 0.1)
    assert ((rows @ matrix).argmax(dim=1) == 2).all()


def test_what_is_explained_is_what_holds_for_rows_not_seen() -> None:
    """Against new rows of the same kind; on its own rows a regression explains more."""
    draw = torch.Generator().manual_seed(0)
    labels = torch.randint(4, (6000,), generator=draw)
    centres = torch.randn(4, 60, generator=draw)
    rows = with_constant(centres[labels] + 3 * torch.randn(6000, 60, generator=draw))
    classes = torch.eye(4)[labels]
    moments = second_moments(rows[:300], classes[:300])
    strength = 0.001 * float(rows[:300].square().sum() / 61)
    model = Ridge(alpha=strength, fit_intercept=False, solver="cholesky")
    model.fit(rows[:300].double().numpy(), classes[:300].double().numpy())

    def r2(some: slice) -> float:
        left = classes[some].double() - torch.from_numpy(model.predict(rows[some].double().numpy()))
        spread = classes[some] - classes[some].mean(dim=0)
        return 1 - float(left.square().sum() / spread.square().sum())

    new, own = r2(slice(300, None)), r2(slice(300))
    assert own - new > 0.1
    assert explained(moments, 0.001) == pytest.approx(new, abs=0.04)
    assert explained(second_moments(torch.zeros(3, 4), torch.zeros(3, 2)), 0.1) == 0


def test_where_nothing_is_told_all_scores_are_zero() -> None:
    assert ridge(second_moments(torch.zeros(3, 4), torch.zeros(3, 2)), 0.1).abs().max() == 0


def test_half_of_the_products_travel() -> None:
    told = second_moments(torch.randn(5, 9), torch.eye(5))
    assert told["triangle"].numel() == 9 * 10 / 2
    assert told["cross"].shape == (9, 5)
