import pytest
import torch
from sklearn.linear_model import Ridge

from anchorfl.describe import ridge, second_moments, with_constant


def test_ridge_of_sums_is_ridge_of_all_rows_and_a_true_class_scores_one_on_average() -> None:
    draw = torch.Generator().manual_seed(0)
    rows = with_constant(torch.randn(40, 6, generator=draw))
    labels = torch.randint(3, (40,), generator=draw)
    classes = torch.eye(3)[labels]
    parts = [second_moments(rows[a:b], classes[a:b]) for a, b in ((0, 3), (3, 21), (21, 40))]
    matrix = ridge(parts, 0.05)
    strength = 0.05 * float(rows.square().sum() / 7)
    model = Ridge(alpha=strength, fit_intercept=False, solver="cholesky")
    model.fit(rows.double().numpy(), classes.double().numpy())
    wanted = torch.from_numpy(model.predict(rows.double().numpy()))
    own = torch.arange(40), labels
    torch.testing.assert_close(
        (rows @ matrix).double(), wanted / wanted[own].mean(), atol=1e-5, rtol=1e-4
    )
    assert float((rows @ matrix)[own].mean()) == pytest.approx(1, abs=1e-5)


def test_where_nothing_is_told_all_scores_are_zero() -> None:
    assert ridge([second_moments(torch.zeros(3, 4), torch.zeros(3, 2))], 0.1).abs().max() == 0


def test_half_of_the_products_travel() -> None:
    told = second_moments(torch.randn(5, 9), torch.eye(5))
    assert told["triangle"].numel() == 9 * 10 / 2
    assert told["cross"].shape == (9, 5)
