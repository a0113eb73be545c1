import pytest
import torch

from anchorfl.data import synthetic_pictures

CPU = torch.device("cpu")


@pytest.mark.parametrize("shape", [(1, 8, 8), (3, 16, 12), (3, 64, 64)])
def test_pictures_depend_on_the_seed_and_the_shape_alone(shape: tuple[int, int, int]) -> None:
    pictures = synthetic_pictures(6, shape, 3, CPU)
    assert pictures.shape == (6, *shape)
    assert pictures.dtype == torch.uint8
    assert torch.equal(pictures, synthetic_pictures(6, shape, 3, CPU))
    assert not torch.equal(pictures, synthetic_pictures(6, shape, 4, CPU))


def test_no_picture_is_plain_and_none_is_like_another() -> None:
    pictures = synthetic_pictures(40, (3, 32, 32), 0, CPU).float() / 255
    assert (pictures.std(dim=(1, 2, 3)) > 0.02).all()
    assert torch.cdist(pictures.flatten(1), pictures.flatten(1)).fill_diagonal_(9).min() > 1
    assert 0.3 < pictures.mean() < 0.7
