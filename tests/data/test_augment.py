import colorsys

import pytest
import torch

from anchorfl.data import Augmentation, augmentation_for
from anchorfl.data.augment import change_colours, crop_and_flip, rotate_hue

COUNT = 40_000


def draws(recipe: Augmentation) -> torch.Tensor:
    return recipe.draw(COUNT, torch.Generator().manual_seed(0))


def test_crops_have_the_published_statistics() -> None:
    x0, y0, width, height = draws(Augmentation())[:, :4].unbind(1)
    area = width * height
    assert float(area.min()) >= 0.2 - 1e-6
    assert float(area.mean()) == pytest.approx(0.6, abs=0.005)
    assert float((x0 + width).max()) <= 1 + 1e-6
    assert float((y0 + height).max()) <= 1 + 1e-6
    assert float(x0.min()) >= 0
    ratio = width / height
    assert 3 / 4 - 1e-5 <= float(ratio.min()) < 0.76
    assert 1.32 < float(ratio.max()) <= 4 / 3 + 1e-5
    assert float(ratio.log().mean()) == pytest.approx(0, abs=0.005)


def test_chances_and_strengths_are_the_published_ones() -> None:
    drawn = draws(Augmentation())
    flip, offsets, grey = drawn[:, 4], drawn[:, 5:9], drawn[:, 9]
    assert float(flip.mean()) == pytest.approx(0.5, abs=0.01)
    assert float(grey.mean()) == pytest.approx(0.2, abs=0.01)
    assert float((offsets != 0).any(dim=1).float().mean()) == pytest.approx(0.8, abs=0.01)
    assert offsets.abs().amax(dim=0).tolist() == pytest.approx([0.4, 0.4, 0.4, 0.1], abs=1e-3)


def test_grey_images_keep_their_colour() -> None:
    assert not draws(augmentation_for((1, 8, 8), flip=False, crop=0.6))[:, 4:].any()
    assert augmentation_for((3, 32, 32), flip=True, crop=0.2) == Augmentation()
    assert augmentation_for((1, 28, 28), flip=True, crop=0.2).flip == 0.5
    assert augmentation_for((3, 32, 32), flip=False, crop=0.2).flip == 0.0


@pytest.mark.parametrize("shape", [(3, 32, 32), (1, 8, 8)])
def test_a_view_keeps_as_much_as_data_crop_says(shape: tuple[int, int, int]) -> None:
    _, _, width, height = draws(augmentation_for(shape, flip=False, crop=0.5))[:, :4].unbind(1)
    assert 0.5 - 1e-6 <= float((width * height).min()) < 0.51


def identity(count: int) -> torch.Tensor:
    row = torch.tensor([0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0])
    return row.repeat(count, 1)


def test_a_draw_of_nothing_changes_nothing() -> None:
    images = torch.randint(0, 256, (4, 3, 6, 6), dtype=torch.uint8)
    result = Augmentation().apply(images, identity(4)[None])
    torch.testing.assert_close(result, images.float() / 255, atol=1e-5, rtol=0)


def test_a_crop_shows_its_box_and_a_flip_mirrors_it() -> None:
    images = torch.arange(16.0).view(1, 1, 4, 4)
    quarter = torch.tensor([[0.5, 0.0, 0.5, 0.5, 0.0]])
    cropped = crop_and_flip(images, quarter)
    box = images[:, :, :2, 2:]
    bilinear = torch.nn.functional.interpolate(box, size=(4, 4), mode="bilinear")
    torch.testing.assert_close(cropped[..., 1:3, 1:3], bilinear[..., 1:3, 1:3])
    mirrored = crop_and_flip(images, torch.tensor([[0.0, 0.0, 1.0, 1.0, 1.0]]))
    torch.testing.assert_close(mirrored, images.flip(3))


def test_hue_agrees_with_the_standard_library() -> None:
    images = torch.rand(2, 3, 4, 4, generator=torch.Generator().manual_seed(1))
    turned = rotate_hue(images, torch.tensor([0.1, -0.07]).view(2, 1, 1, 1))
    for sample, turn in enumerate((0.1, -0.07)):
        for row in range(4):
            hue, saturation, value = colorsys.rgb_to_hsv(*images[sample, :, row, 0].tolist())
            wanted = colorsys.hsv_to_rgb((hue + turn) % 1, saturation, value)
            assert turned[sample, :, row, 0].tolist() == pytest.approx(wanted, abs=1e-5)


def test_each_sample_gets_its_own_colours() -> None:
    images = torch.rand(3, 3, 5, 5, generator=torch.Generator().manual_seed(2))

    def column(*values: float) -> torch.Tensor:
        return torch.tensor(values).view(3, 1, 1, 1)

    zero = column(0.0, 0.0, 0.0)
    result = change_colours(images, column(0.0, -0.4, 0.0), zero, zero, zero, column(0.0, 0.0, 1.0))
    torch.testing.assert_close(result[0], images[0], atol=1e-5, rtol=0)
    torch.testing.assert_close(result[1], images[1] * 0.6, atol=1e-5, rtol=0)
    torch.testing.assert_close(result[2, 0], result[2, 1])
    flat = change_colours(images, zero, zero - 1, zero, zero, zero)
    assert float(flat.std(dim=(1, 2, 3)).max()) < 1e-5
