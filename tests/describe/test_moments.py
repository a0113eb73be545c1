import torch

from anchorfl.describe import second_moments


def test_half_of_the_products_travel() -> None:
    told = second_moments(torch.randn(5, 9), torch.eye(5))
    assert told["triangle"].numel() == 9 * 10 / 2
    assert told["cross"].shape == (9, 5)
