"""The kernels of our own give the numbers of the plain operations. They need a GPU.

Without one, Triton's interpreter can run them: TRITON_INTERPRET=1, with the package triton.
"""

from __future__ import annotations

import os

import pytest
import torch
import torch.nn.functional as F
from torch.func import functional_call

from anchorfl.data import Augmentation
from anchorfl.nn import BatchNorm

pytest.importorskip("triton")
interpreted = os.environ.get("TRITON_INTERPRET") == "1"
if not torch.cuda.is_available() and not interpreted:
    pytest.skip("needs a GPU", allow_module_level=True)
DEVICE = torch.device("cpu" if interpreted else "cuda")


@torch.no_grad()
def relative_error(wanted: torch.Tensor, got: torch.Tensor) -> float:
    difference = (wanted.float() - got.float()).abs().max()
    return float(difference / wanted.float().abs().max().clamp(min=1e-9))


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 2e-5), (torch.bfloat16, 3e-2)])
@pytest.mark.parametrize("shape", [(6, 8, 5, 5), (7, 70, 3, 3), (9, 64), (40, 64, 8, 8), (6, 8, 5)])
@pytest.mark.parametrize("rectify", [False, True])
@pytest.mark.parametrize("add", [False, True])
def test_normalisation(
    dtype: torch.dtype, tolerance: float, shape: tuple[int, ...], rectify: bool, add: bool
) -> None:
    generator = torch.Generator().manual_seed(1)
    samples, channels = shape[:2]
    layout = torch.channels_last if len(shape) == 4 else torch.contiguous_format

    def drawn() -> torch.Tensor:
        values = torch.randn(shape, generator=generator).to(DEVICE)
        return values.contiguous(memory_format=layout)

    given, beside, weight_of_result = 2 * drawn() + 1, drawn(), drawn()
    counts = (torch.arange(samples, device=DEVICE) < samples - 2).float()
    weight_of_result *= counts.view(-1, *[1] * (len(shape) - 1))
    results = []
    for kernel in (False, True):
        norm = BatchNorm(channels, rectify=rectify).to(DEVICE)
        norm.use_kernel = kernel
        with torch.no_grad():
            norm.weight.copy_(torch.linspace(0.5, 2, channels))  # type: ignore[union-attr]
            norm.bias.copy_(torch.linspace(-1, 1, channels))  # type: ignore[union-attr]
            norm.running_mean.fill_(0.3)
        x = given.to(dtype).requires_grad_()
        residual = beside.to(dtype).requires_grad_()
        inputs = (x, residual) if add else (x,)
        if not kernel:
            inputs = tuple(value.float() for value in inputs)
        y = functional_call(norm, {"sample_weights": counts}, inputs)
        sources = [x, norm.weight, norm.bias] + ([residual] if add else [])
        gradients = torch.autograd.grad((y.float() * weight_of_result).sum(), sources)
        with torch.no_grad():
            later = norm.eval()(*inputs)
        results.append([y, norm.running_mean, norm.running_var, later, *gradients])
    for wanted, got in zip(*results, strict=True):
        assert relative_error(wanted, got) < tolerance


@pytest.mark.parametrize(("height", "width"), [(8, 8), (32, 32), (24, 20)])
def test_augmentation(height: int, width: int) -> None:
    recipe, generator = Augmentation(), torch.Generator().manual_seed(2)
    images = torch.randint(0, 256, (6, 3, height, width), dtype=torch.uint8, generator=generator)
    images[0] = 128
    draws = recipe.draw(12, generator).view(2, 6, -1)
    draws[0, 1, :4] = torch.tensor([0.0, 0.0, 1.0, 1.0])
    images, draws = images.to(DEVICE), draws.to(DEVICE)
    plain, by_kernel = recipe.apply(images, draws), recipe.apply(images, draws, kernel=True)
    torch.testing.assert_close(by_kernel, plain, atol=2e-5, rtol=0)


def test_a_layer_that_sees_only_padding_moves_no_statistic() -> None:
    norm = BatchNorm(2).to(DEVICE)
    norm.use_kernel = True
    x = torch.randn(3, 2, 2, 2, device=DEVICE).contiguous(memory_format=torch.channels_last)
    result = functional_call(norm, {"sample_weights": torch.zeros(3, device=DEVICE)}, (x,))
    assert result.isfinite().all()
    assert F.mse_loss(norm.running_mean, torch.zeros(2, device=DEVICE)) == 0
    assert F.mse_loss(norm.running_var, torch.ones(2, device=DEVICE)) == 0


def test_a_layer_in_evaluation_mode_still_passes_gradients() -> None:
    norm = BatchNorm(2).to(DEVICE).eval()
    norm.use_kernel = True
    x = torch.randn(3, 2, 2, 2, device=DEVICE, requires_grad=True)
    assert torch.autograd.grad(norm(x).square().sum(), x)[0].abs().sum() > 0
