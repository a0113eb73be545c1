from typing import Any

import pytest
import torch

from anchorfl.data import synthetic, synthetic_pictures
from anchorfl.data.synthetic import draw_signs, write
from anchorfl.randomness import generator

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


def test_half_of_the_pictures_have_signs(monkeypatch: pytest.MonkeyPatch) -> None:
    pictures = []

    def watched(behind: torch.Tensor, *rest: Any) -> torch.Tensor:
        pictures.append(write(behind, *rest))
        return pictures[-1]

    monkeypatch.setattr(synthetic, "write", watched)
    made = synthetic_pictures(30, (3, 16, 16), 0, CPU)
    assert len(pictures[0]) == 15
    plain = synthetic_pictures(30, (3, 16, 16), 0, CPU)
    assert torch.equal(made, plain)
    monkeypatch.setattr(synthetic, "write", lambda behind, *rest: behind)
    assert not torch.equal(made, synthetic_pictures(30, (3, 16, 16), 0, CPU))


def test_signs_are_of_one_colour_along_the_pen_and_leave_the_rest_alone() -> None:
    side, count = 64, 5
    signs = draw_signs(count, 3, 1 / side, generator(0, "signs"))
    centres = (torch.arange(side) + 0.5) / side
    written = write(torch.full((count, 3, side, side), 2.0), signs, centres, centres)
    gaps = torch.cdist(
        torch.cartesian_prod(centres, centres).expand(count, -1, -1), signs.points.flip(2)
    )
    nearest = gaps.amin(dim=2).view(count, side, side)
    reach = (signs.pen + signs.edge / 2)[:, None, None]
    colours = signs.colours.clamp(0, 1)[:, :, None, None].expand_as(written)
    under = (nearest < (signs.pen - signs.edge / 2)[:, None, None])[:, None].expand_as(written)
    away = (nearest > reach)[:, None].expand_as(written)
    assert torch.equal(written[away], torch.full_like(written[away], 2.0))
    torch.testing.assert_close(written[under], colours[under])
    assert away.float().mean() > 0.3
    assert (~away).float().mean() > 0.02
