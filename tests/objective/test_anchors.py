import pytest
import torch

from anchorfl.errors import UserError
from anchorfl.objective.anchors import simplex_etf


@pytest.mark.parametrize(("classes", "dimension"), [(2, 1), (10, 9), (10, 128), (100, 512), (200, 199)])
def test_gram_matrix_is_that_of_a_simplex(classes: int, dimension: int) -> None:
    anchors = simplex_etf(classes, dimension, seed=3).double()
    wanted = torch.full((classes, classes), -1 / (classes - 1), dtype=torch.float64)
    wanted.fill_diagonal_(1)
    assert anchors.shape == (classes, dimension)
    torch.testing.assert_close(anchors @ anchors.T, wanted, atol=1e-6, rtol=0)


def test_every_site_derives_the_same_anchors_and_another_seed_others() -> None:
    assert torch.equal(simplex_etf(10, 64, 1), simplex_etf(10, 64, 1))
    assert not torch.allclose(simplex_etf(10, 64, 1), simplex_etf(10, 64, 2), atol=0.1)


def test_the_frame_is_the_same_for_any_number_of_threads() -> None:
    before = torch.get_num_threads()
    frames = []
    for threads in (1, 2):
        torch.set_num_threads(threads)
        frames.append(simplex_etf(100, 512, 1))
    torch.set_num_threads(before)
    torch.testing.assert_close(frames[0], frames[1], atol=1e-6, rtol=0)


def test_too_few_dimensions_are_refused_with_both_numbers() -> None:
    with pytest.raises(UserError, match=r"100 anchors need .* at least 99 dimensions.* gives 98"):
        simplex_etf(100, 98, 0)
