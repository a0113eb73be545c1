import torch

from anchorfl.randomness import derive, generator, seeded


def test_every_part_of_the_key_matters() -> None:
    keys = [(s, p, k, e) for s in (0, 1) for p in ("order", "augment") for k in (0, 1) for e in (0, 1)]
    assert len({derive(*key) for key in keys}) == len(keys)


def test_the_global_generator_is_neither_read_nor_moved() -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    first = torch.randn(4, generator=generator(1, "order", 2, 3))
    with seeded(1, "weights"):
        torch.nn.Linear(3, 3)
    assert torch.equal(torch.rand(3), expected)
    assert torch.equal(first, torch.randn(4, generator=generator(1, "order", 2, 3)))
