"""BatchNorm whose statistics are explicit, ignore padding and survive a single value."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from anchorfl.errors import UserError


class BatchNorm(nn.Module):
    """Batch normalisation over all dimensions but the second, then `+ residual`, then `rectify`.

    The running statistics are buffers, so they live in the client's state. `sample_weights` is a
    buffer too: a scalar means that every sample counts, a vector gives each sample's weight, and a
    sample of weight 0 enters no statistic. It is passed with the state in a functional call.
    `use_kernel` lets a GPU do all of it in one kernel, to rounding the same; a residual then has x's
    shape.
    """

    running_mean: Tensor
    running_var: Tensor
    sample_weights: Tensor
    use_kernel = False

    def __init__(
        self,
        channels: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = True,
        rectify: bool = False,
    ) -> None:
        super().__init__()
        self.eps, self.momentum, self.rectify = eps, momentum, rectify
        self.weight = nn.Parameter(torch.ones(channels)) if affine else None
        self.bias = nn.Parameter(torch.zeros(channels)) if affine else None
        self.register_buffer("running_mean", torch.zeros(channels))
        self.register_buffer("running_var", torch.ones(channels))
        self.register_buffer("sample_weights", torch.ones(()), persistent=False)

    def forward(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        if self.use_kernel and self._kernel_takes(x):
            return self._by_kernel(x, residual)
        single_value = x.numel() == x.shape[1]
        if self.training and (self.sample_weights.dim() > 0 or single_value):
            result = self._weighted(x)
        else:
            running, affine = (self.running_mean, self.running_var), (self.weight, self.bias)
            result = F.batch_norm(x, *running, *affine, self.training, self.momentum, self.eps)
        if residual is not None:
            result = result + residual
        return F.relu(result, inplace=True) if self.rectify else result

    def _kernel_takes(self, x: Tensor) -> bool:
        """The kernels know rows of channels, single precision, and no gradient in evaluation mode."""
        plain = self.weight is not None and x.dim() in (2, 4) and x.dtype != torch.float64
        return plain and (self.training or not torch.is_grad_enabled())

    def _by_kernel(self, x: Tensor, residual: Tensor | None) -> Tensor:
        from anchorfl.compute.kernels.normalise import normalise, normalise_in_training

        scale, bias, mean, variance = self.weight, self.bias, self.running_mean, self.running_var
        if not self.training:
            return normalise(x, residual, scale, bias, mean, variance, self.eps, self.rectify)
        weights = self.sample_weights.expand(len(x)).contiguous()
        layer = (scale, bias, mean, variance, weights, self.momentum, self.eps, self.rectify)
        result: Tensor = normalise_in_training(x, residual, *layer)  # type: ignore[no-untyped-call]
        return result

    def _weighted(self, x: Tensor) -> Tensor:
        """Weighted moments; statistics of a single value (or none) are not kept."""
        axes = [0, *range(2, x.dim())]
        column = [1, -1] + [1] * (x.dim() - 2)
        weights = self.sample_weights.expand(len(x)).view(-1, *[1] * (x.dim() - 1))
        values = x.to(self.running_mean.dtype)
        count = self.sample_weights.expand(len(x)).sum() * (x[0, 0].numel())
        mean = (values * weights).sum(axes) / count.clamp(min=1)
        centred = values - mean.view(column)
        variance = (centred.square() * weights).sum(axes) / count.clamp(min=1)
        step = self.momentum * (count > 1)
        unbiased = variance.detach() * count / (count - 1).clamp(min=1)
        self.running_mean.copy_(self.running_mean + step * (mean.detach() - self.running_mean))
        self.running_var.copy_(self.running_var + step * (unbiased - self.running_var))
        result = centred * (variance + self.eps).rsqrt().view(column)
        if self.weight is not None and self.bias is not None:
            result = result * self.weight.view(column) + self.bias.view(column)
        return result.to(x.dtype)


def batchnorms(module: nn.Module) -> dict[str, BatchNorm]:
    return {name: child for name, child in module.named_modules() if isinstance(child, BatchNorm)}


@contextmanager
def averaging(module: nn.Module, norms: Iterable[BatchNorm], number: int) -> Iterator[None]:
    """Inside, only these BatchNorms are in training mode: all else is as it will be used.

    Batch `number` (from 0) enters the running statistics with weight 1/(number+1).
    """
    module.eval()
    norms = list(norms)
    usual = [norm.momentum for norm in norms]
    for norm in norms:
        norm.train()
        norm.momentum = 1 / (number + 1)
    try:
        yield
    finally:
        for norm, momentum in zip(norms, usual, strict=True):
            norm.eval()
            norm.momentum = momentum


def adopt_batchnorm(module: nn.Module) -> nn.Module:
    """Replace torch's BatchNorm layers of a user's encoder by ours, with all they hold."""
    for name, child in module.named_children():
        if isinstance(child, nn.BatchNorm1d | nn.BatchNorm2d | nn.BatchNorm3d):
            if not child.track_running_stats:
                raise UserError(
                    "a BatchNorm layer without running statistics makes a prediction depend on its"
                    " neighbours: build it with track_running_stats=True"
                )
            ours = BatchNorm(child.num_features, child.eps, child.momentum or 0.1, child.affine)
            ours.load_state_dict(child.state_dict(), strict=False)
            for parameter, value in child.named_parameters():
                ours.get_parameter(parameter).requires_grad_(value.requires_grad)
            setattr(module, name, ours)
        else:
            adopt_batchnorm(child)
    return module
