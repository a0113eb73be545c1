import pytest
import torch

from anchorfl.data import ImageFacts, ImageStore
from anchorfl.describe import Sketch, dead_leaves
from anchorfl.describe import sketch as module
from anchorfl.prepare import describer_for
from anchorfl.settings import resolve
from tests.conftest import make_site, make_trainer


@pytest.mark.parametrize("shape", [(1, 8, 8), (3, 32, 32), (1, 28, 28), (3, 96, 64)])
def test_a_sketch_has_norm_one_and_is_the_same_on_every_site(shape: tuple[int, int, int]) -> None:
    images = torch.rand(5, *shape, generator=torch.Generator().manual_seed(1))
    sketch = Sketch.drawn(shape, 8, seed=3, mirrored=False)
    rows = sketch(images)
    assert rows.shape == (5, 2 * 8 * module.GRID**2)
    torch.testing.assert_close(rows.norm(dim=1), torch.ones(5))
    module.patch_filters.cache_clear()
    torch.testing.assert_close(Sketch.drawn(shape, 8, seed=3, mirrored=False)(images), rows)
    assert not torch.allclose(Sketch.drawn(shape, 8, seed=4, mirrored=False)(images), rows, atol=1e-3)
    torch.testing.assert_close(sketch(images[2:3])[0], rows[2], atol=1e-5, rtol=1e-5)


def test_it_sees_edges_and_not_brightness() -> None:
    sketch = Sketch.drawn((1, 32, 32), 16, seed=0, mirrored=False)
    upright = torch.zeros(1, 1, 32, 32)
    upright[..., 16:] = 0.8
    lying = upright.transpose(2, 3)
    darker = 0.5 * upright + 0.2
    same = torch.cosine_similarity(sketch(upright), sketch(darker))
    other = torch.cosine_similarity(sketch(upright), sketch(lying))
    assert same > 0.98
    assert other < 0.8


def test_a_mirrored_sketch_is_that_of_the_mirror_image_too() -> None:
    images = torch.rand(4, 3, 32, 32, generator=torch.Generator().manual_seed(2))
    mirrored = Sketch.drawn((3, 32, 32), 8, seed=0, mirrored=True)
    torch.testing.assert_close(mirrored(images), mirrored(images.flip(3)), atol=1e-6, rtol=1e-5)
    plain = Sketch.drawn((3, 32, 32), 8, seed=0, mirrored=False)
    assert not torch.allclose(plain(images), plain(images.flip(3)), atol=1e-2)
    both = plain(images).square() * plain.fields(images).sum(dim=(1, 2, 3))[:, None]
    both += plain(images.flip(3)).square() * plain.fields(images.flip(3)).sum(dim=(1, 2, 3))[:, None]
    torch.testing.assert_close(mirrored(images), (both / both.sum(dim=1, keepdim=True)).sqrt())


@pytest.mark.parametrize(("data", "mirrored"), [("digits", False), ("svhn", False), ("cifar10", True)])
def test_only_images_that_may_be_mirrored_are(data: str, mirrored: bool) -> None:
    config = resolve("v4", {"data.name": data, "data.root": "data"})
    facts = ImageFacts((3, 32, 32), 10, (0.5,) * 3, (0.25,) * 3)
    assert describer_for(config, facts, None).sketch.mirrored is mirrored


def test_an_image_without_contrast_gives_finite_numbers() -> None:
    assert torch.isfinite(
        Sketch.drawn((3, 32, 32), 4, seed=0, mirrored=False)(torch.full((2, 3, 32, 32), 0.5))
    ).all()


def test_dead_leaves_have_edges_of_many_sizes() -> None:
    pictures = dead_leaves(3, torch.Generator().manual_seed(0))
    assert pictures.shape == (module.PICTURES, 3, 32, 32)
    assert pictures.min() >= 0
    assert pictures.max() <= 1
    jumps = (pictures.diff(dim=3).abs().amax(dim=1) > 0.02).float().mean()
    assert 0.05 < jumps < 0.5


def test_no_statistic_describes_a_class_with_few_samples(store: ImageStore) -> None:
    """What leaves the site is what would leave it without them."""
    needs = "zscore,sketch-guided,class-mean"
    trainer = make_trainer("v4", **{"fusion": needs, "upload.min_count": 3})
    site = make_site(trainer, 0, store, [0, 4, 8, 1, 5])  # 3 of class 0, 2 of class 1
    only = make_site(trainer, 1, store, [0, 4, 8])
    weights = [site.upload().encoder]
    with torch.no_grad():
        torch.testing.assert_close(
            site.statistics(1, weights), only.statistics(1, weights), atol=1e-6, rtol=1e-5
        )
    alone = make_site(trainer, 2, store, [2]).upload()
    assert all(value.abs().max() == 0 for value in alone.statistics.values())


def test_a_site_sketches_its_samples_once(store: ImageStore, monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = make_trainer("v4", **{"fusion": "sketch-guided", "upload.min_count": 1})
    site = make_site(trainer, 0, store, list(range(12)))
    first = site.upload()
    monkeypatch.setattr(Sketch, "forward", None)
    site.train_round(0)
    second = site.upload()
    assert torch.equal(
        first.statistic("sketch_moments")["triangle"], second.statistic("sketch_moments")["triangle"]
    )
    assert not torch.equal(
        first.statistic("class_means")["mean"], second.statistic("class_means")["mean"]
    )
