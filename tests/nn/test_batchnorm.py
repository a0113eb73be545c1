import pytest
import torch
from torch import nn
from torch.func import functional_call

from anchorfl.errors import UserError
from anchorfl.nn import BatchNorm
from anchorfl.nn.batchnorm import adopt_batchnorm, averaging


def test_it_is_torch_batchnorm_where_every_sample_counts() -> None:
    ours, theirs = BatchNorm(3), nn.BatchNorm2d(3)
    images = torch.randn(5, 3, 4, 4)
    torch.testing.assert_close(ours(images), theirs(images))
    torch.testing.assert_close(ours.running_var, theirs.running_var)
    torch.testing.assert_close(ours.eval()(images), theirs.eval()(images))


def test_padding_enters_no_statistic() -> None:
    images = torch.randn(5, 3, 4, 4)
    plain, padded = BatchNorm(3), BatchNorm(3)
    expected = plain(images)
    weights = torch.tensor([1.0] * 5 + [0.0, 0.0])
    batch = torch.cat([images, torch.full((2, 3, 4, 4), 50.0)])
    result = functional_call(padded, {"sample_weights": weights}, (batch,))
    torch.testing.assert_close(result[:5], expected, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(padded.running_mean, plain.running_mean)
    torch.testing.assert_close(padded.running_var, plain.running_var)


def test_statistics_rest_where_all_is_padding() -> None:
    norm = BatchNorm(2)
    functional_call(norm, {"sample_weights": torch.zeros(3)}, (torch.randn(3, 2, 2, 2),))
    assert torch.equal(norm.running_mean, torch.zeros(2))
    assert torch.equal(norm.running_var, torch.ones(2))


def test_a_single_value_a_channel_is_finite() -> None:
    norm = BatchNorm(2)
    images = torch.randn(1, 2, 1, 1, requires_grad=True)
    result = norm(images)
    assert torch.isfinite(result).all()
    assert torch.isfinite(torch.autograd.grad(result.sum(), images)[0]).all()
    assert norm.running_var.tolist() == [1.0, 1.0]


def test_averaging_gives_the_mean_over_batches_and_restores_the_momentum() -> None:
    norm = BatchNorm(1)
    batches = torch.randn(4, 8, 1, 2, 2)
    for number, batch in enumerate(batches):
        with averaging(norm, [norm], number):
            norm(batch)
    torch.testing.assert_close(norm.running_mean, batches.mean(dim=(0, 1, 3, 4)))
    assert norm.momentum == 0.1


def test_a_users_layers_are_adopted_with_their_weights() -> None:
    encoder = nn.Sequential(nn.Conv2d(1, 2, 3), nn.Sequential(nn.BatchNorm2d(2, eps=0.1, momentum=0.3)))
    nn.init.constant_(encoder[1][0].weight, 7.0)
    adopt_batchnorm(encoder)
    adopted = encoder[1][0]
    assert isinstance(adopted, BatchNorm)
    assert (adopted.eps, adopted.momentum) == (0.1, 0.3)
    assert adopted.weight.tolist() == pytest.approx([7.0, 7.0])


def test_a_layer_without_weights_stays_so_and_one_without_statistics_is_refused() -> None:
    plain = adopt_batchnorm(nn.Sequential(nn.BatchNorm2d(2, affine=False)))
    assert not list(plain.parameters())
    images, weights = torch.randn(3, 2, 2, 2), torch.tensor([1.0, 1.0, 0.0])
    padded = functional_call(plain, {"0.sample_weights": weights}, (images,))
    torch.testing.assert_close(padded[:2], BatchNorm(2)(images[:2]), atol=1e-5, rtol=1e-5)
    with pytest.raises(UserError, match="depend on its neighbours"):
        adopt_batchnorm(nn.Sequential(nn.BatchNorm1d(2, track_running_stats=False)))
