# mypy: ignore-errors
"""Batch normalisation, addition and rectification in one go, for a GPU with Triton.

y = relu(scale (x - mean) / sqrt(var + eps) + bias + residual): x is read twice and y written once;
backward, x and the gradient are read twice. Activations lie channels-last, so they are a
matrix of rows (sample, pixel) and columns (channel). Statistics hold sample weights: a row of
weight 0 is normalised like the others and enters no sum.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

PROGRAMS = 264
ROWS, COLUMNS = tl.constexpr(128), tl.constexpr(64)
"""A tile of column sums."""
FINISHED, BLOCK = tl.constexpr(16), tl.constexpr(4096)
"""Columns whose sums a program finishes, and elements that one is given."""


@triton.jit
def _moments(x, weights, running_mean, pixels, partial, rows, C: tl.constexpr):
    """Column sums of w d and w d^2 over this program's rows, d = x - running mean.

    The running mean is near the mean, so that E d^2 - (E d)^2 loses no digits.
    """
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside = column < C
    centre = tl.load(running_mean + column, mask=inside, other=0.0)
    first = tl.zeros([ROWS, COLUMNS], tl.float32)
    second = tl.zeros([ROWS, COLUMNS], tl.float32)
    for block in range(tl.program_id(0), tl.cdiv(rows, ROWS), tl.num_programs(0)):
        row = block * ROWS + tl.arange(0, ROWS)
        weight = tl.load(weights + row // pixels, mask=row < rows, other=0.0)
        place = row.to(tl.int64)[:, None] * C + column[None, :]
        value = tl.load(x + place, mask=(row < rows)[:, None] & inside[None, :], other=0.0)
        away = value.to(tl.float32) - centre[None, :]
        first += weight[:, None] * away
        second += weight[:, None] * away * away
    place = partial + tl.program_id(0) * 2 * C + column
    tl.store(place, tl.sum(first, 0), mask=inside)
    tl.store(place + C, tl.sum(second, 0), mask=inside)


@triton.jit
def _totals(partial, programs, column, inside, C: tl.constexpr):
    """Sums over programs of the two rows of partial sums."""
    first = tl.zeros([64, FINISHED], tl.float32)
    second = tl.zeros([64, FINISHED], tl.float32)
    for block in range(0, programs, 64):
        program = block + tl.arange(0, 64)
        mask = (program < programs)[:, None] & inside[None, :]
        place = partial + program[:, None] * 2 * C + column[None, :]
        first += tl.load(place, mask=mask, other=0.0)
        second += tl.load(place + C, mask=mask, other=0.0)
    return tl.sum(first, 0), tl.sum(second, 0)


@triton.jit
def _count(weights, samples, pixels):
    """Sum of weights over all rows."""
    total = tl.zeros([1024], tl.float32)
    for block in range(0, samples, 1024):
        sample = block + tl.arange(0, 1024)
        total += tl.load(weights + sample, mask=sample < samples, other=0.0)
    return tl.sum(total, 0) * pixels


@triton.jit
def _finish_forward(
    partial,
    weights,
    scale,
    bias,
    running_mean,
    running_var,
    statistics,
    momentum,
    eps,
    programs,
    samples,
    pixels,
    C: tl.constexpr,
):
    """y = factor x + offset, mean, 1/sqrt(var + eps): four rows; the running statistics move."""
    column = tl.program_id(0) * FINISHED + tl.arange(0, FINISHED)
    inside = column < C
    count = _count(weights, samples, pixels)
    first, second = _totals(partial, programs, column, inside, C)
    centre = tl.load(running_mean + column, mask=inside, other=0.0)
    spread = tl.load(running_var + column, mask=inside, other=1.0)
    whole = tl.maximum(count, 1.0)
    away = first / whole
    mean = centre + away
    variance = tl.maximum(second / whole - away * away, 0.0)
    inverse = tl.rsqrt(variance + eps)
    factor = tl.load(scale + column, mask=inside, other=0.0) * inverse
    offset = tl.load(bias + column, mask=inside, other=0.0) - mean * factor
    tl.store(statistics + 2 * C + column, mean, mask=inside)
    tl.store(statistics + 3 * C + column, inverse, mask=inside)
    tl.store(statistics + column, factor, mask=inside)
    tl.store(statistics + C + column, offset, mask=inside)
    step = tl.where(count > 1, momentum, 0.0)
    unbiased = variance * count / tl.maximum(count - 1, 1.0)
    tl.store(running_mean + column, centre + step * away, mask=inside)
    tl.store(running_var + column, spread + step * (unbiased - spread), mask=inside)


@triton.jit
def _apply(x, residual, statistics, y, elements, C: tl.constexpr, RECTIFY: tl.constexpr):
    """y = factor x + offset, plus the residual, rectified."""
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = place < elements
    column = (place % C).to(tl.int32)
    value = tl.load(x + place, mask=mask, other=0.0).to(tl.float32)
    value = value * tl.load(statistics + column) + tl.load(statistics + C + column)
    if residual is not None:
        value += tl.load(residual + place, mask=mask, other=0.0).to(tl.float32)
    if RECTIFY:
        value = tl.maximum(value, 0.0)
    tl.store(y + place, value.to(y.dtype.element_ty), mask=mask)


@triton.jit
def _rectified(gradient, value, y, place, mask, factor, offset, RECTIFY: tl.constexpr):
    """The gradient before the rectifier; without a residual y is found again from x."""
    if RECTIFY:
        if y is not None:
            result = tl.load(y + place, mask=mask, other=0.0).to(tl.float32)
        else:
            result = value * factor + offset
        gradient = tl.where(result > 0, gradient, 0.0)
    return gradient


@triton.jit
def _gradient_sums(x, y, gradient, statistics, partial, rows, C: tl.constexpr, RECTIFY: tl.constexpr):
    """Column sums of g and g xhat over this program's rows."""
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside = column < C
    mean = tl.load(statistics + 2 * C + column, mask=inside, other=0.0)[None, :]
    inverse = tl.load(statistics + 3 * C + column, mask=inside, other=0.0)[None, :]
    factor = tl.load(statistics + column, mask=inside, other=0.0)[None, :]
    offset = tl.load(statistics + C + column, mask=inside, other=0.0)[None, :]
    first = tl.zeros([ROWS, COLUMNS], tl.float32)
    second = tl.zeros([ROWS, COLUMNS], tl.float32)
    for block in range(tl.program_id(0), tl.cdiv(rows, ROWS), tl.num_programs(0)):
        row = block * ROWS + tl.arange(0, ROWS)
        mask = (row < rows)[:, None] & inside[None, :]
        place = row.to(tl.int64)[:, None] * C + column[None, :]
        value = tl.load(x + place, mask=mask, other=0.0).to(tl.float32)
        given = tl.load(gradient + place, mask=mask, other=0.0).to(tl.float32)
        given = _rectified(given, value, y, place, mask, factor, offset, RECTIFY)
        first += given
        second += given * (value - mean) * inverse
    place = partial + tl.program_id(0) * 2 * C + column
    tl.store(place, tl.sum(first, 0), mask=inside)
    tl.store(place + C, tl.sum(second, 0), mask=inside)


@triton.jit
def _finish_backward(partial, weights, means, sums, programs, samples, pixels, C: tl.constexpr):
    """The gradients of bias and scale, and the same over the count."""
    column = tl.program_id(0) * FINISHED + tl.arange(0, FINISHED)
    inside = column < C
    whole = tl.maximum(_count(weights, samples, pixels), 1.0)
    first, second = _totals(partial, programs, column, inside, C)
    tl.store(sums + column, first, mask=inside)
    tl.store(sums + C + column, second, mask=inside)
    tl.store(means + column, first / whole, mask=inside)
    tl.store(means + C + column, second / whole, mask=inside)


@triton.jit
def _apply_backward(
    x,
    y,
    gradient,
    weights,
    statistics,
    means,
    to_x,
    to_residual,
    pixels,
    elements,
    C: tl.constexpr,
    RECTIFY: tl.constexpr,
):
    """dx = factor (g - w (mean g + xhat mean(g xhat))); the residual's gradient is g."""
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = place < elements
    column = (place % C).to(tl.int32)
    weight = tl.load(weights + place // C // pixels, mask=mask, other=0.0)
    factor = tl.load(statistics + column)
    offset = tl.load(statistics + C + column)
    value = tl.load(x + place, mask=mask, other=0.0).to(tl.float32)
    given = tl.load(gradient + place, mask=mask, other=0.0).to(tl.float32)
    given = _rectified(given, value, y, place, mask, factor, offset, RECTIFY)
    if to_residual is not None:
        tl.store(to_residual + place, given.to(to_residual.dtype.element_ty), mask=mask)
    away = (value - tl.load(statistics + 2 * C + column)) * tl.load(statistics + 3 * C + column)
    common = tl.load(means + column) + away * tl.load(means + C + column)
    tl.store(to_x + place, (factor * (given - weight * common)).to(to_x.dtype.element_ty), mask=mask)


def _rows_last(x: Tensor) -> Tensor:
    return x.contiguous(memory_format=torch.channels_last) if x.dim() == 4 else x.contiguous()


def _sizes(x: Tensor) -> tuple[int, int, int]:
    """Samples, channels, pixels of a channel."""
    samples, channels = x.shape[:2]
    return samples, channels, x.numel() // samples // channels


def _partial_sums(kernel, x: Tensor, *arguments, **switches) -> Tensor:
    """Run a kernel of column sums over x; returns programs x 2 x channels."""
    samples, channels, pixels = _sizes(x)
    rows, groups = samples * pixels, triton.cdiv(channels, COLUMNS.value)
    programs = max(1, min(triton.cdiv(rows, ROWS.value), PROGRAMS // groups))
    partial = torch.empty(programs, 2, channels, device=x.device)
    kernel[programs, groups](x, *arguments, partial, rows, C=channels, num_warps=8, **switches)
    return partial


def _finish(kernel, partial: Tensor, x: Tensor, *arguments) -> None:
    """Run a kernel that adds up partial sums, a few columns per program."""
    samples, channels, pixels = _sizes(x)
    grid = (triton.cdiv(channels, FINISHED.value),)
    kernel[grid](partial, *arguments, len(partial), samples, pixels, C=channels)


def _elementwise(kernel, x: Tensor, *arguments, **switches) -> None:
    """Run a kernel over all of x, a block of elements per program."""
    grid = (triton.cdiv(x.numel(), BLOCK.value),)
    kernel[grid](x, *arguments, x.numel(), C=x.shape[1], **switches)


class TrainingNorm(torch.autograd.Function):
    """Training mode: (x, residual or None, scale, bias, running mean and variance, ...) -> y."""

    @staticmethod
    def forward(
        ctx, x, residual, scale, bias, running_mean, running_var, weights, momentum, eps, rectify
    ):
        x = _rows_last(x)
        partial = _partial_sums(_moments, x, weights, running_mean, _sizes(x)[2])
        statistics = torch.empty(4, x.shape[1], device=x.device)
        layer = (scale, bias, running_mean, running_var, statistics, momentum, eps)
        _finish(_finish_forward, partial, x, weights, *layer)
        y = _applied(x, residual, statistics, rectify)
        ctx.add, ctx.rectify = residual is not None, rectify
        ctx.save_for_backward(x, y if ctx.add and rectify else None, weights, statistics)
        return y

    @staticmethod
    def backward(ctx, gradient):
        x, y, weights, statistics = ctx.saved_tensors
        gradient = _rows_last(gradient)
        partial = _partial_sums(_gradient_sums, x, y, gradient, statistics, RECTIFY=ctx.rectify)
        means, sums = torch.empty(2, 2, x.shape[1], device=x.device).unbind()
        _finish(_finish_backward, partial, x, weights, means, sums)
        to_x = torch.empty_like(x)
        to_residual = torch.empty_like(x) if ctx.add else None
        given = (y, gradient, weights, statistics, means, to_x, to_residual, _sizes(x)[2])
        _elementwise(_apply_backward, x, *given, RECTIFY=ctx.rectify)
        to_bias, to_scale = sums.unbind()
        return to_x, to_residual, to_scale, to_bias, *[None] * 6


normalise_in_training = TrainingNorm.apply


def normalise(x, residual, scale, bias, mean, variance, eps: float, rectify: bool) -> Tensor:
    """The same with given statistics; no gradient."""
    factor = scale * torch.rsqrt(variance + eps)
    statistics = torch.stack([factor, bias - mean * factor])
    return _applied(_rows_last(x), residual, statistics, rectify)


def _applied(x: Tensor, residual: Tensor | None, statistics: Tensor, rectify: bool) -> Tensor:
    """relu(factor x + offset + residual), factor and offset the first two rows of `statistics`."""
    y, beside = torch.empty_like(x), None if residual is None else _rows_last(residual)
    _elementwise(_apply, x, beside, statistics, y, RECTIFY=rectify)
    return y
