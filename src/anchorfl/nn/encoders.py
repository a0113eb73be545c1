"""The encoders by name: images -> features."""

from __future__ import annotations

from collections.abc import Callable

import torch.nn.functional as F
from torch import Tensor, nn

from anchorfl.data import Shape
from anchorfl.nn.batchnorm import BatchNorm
from anchorfl.registry import Registry

EncoderFactory = Callable[[Shape], nn.Module]
ENCODERS: Registry[EncoderFactory] = Registry("model")


class ResidualBlock(nn.Module):
    """Two 3x3 convolutions beside a shortcut (He et al., 2016, basic block)."""

    def __init__(self, entering: int, leaving: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(entering, leaving, 3, stride, padding=1, bias=False)
        self.norm1 = BatchNorm(leaving, rectify=True)
        self.conv2 = nn.Conv2d(leaving, leaving, 3, padding=1, bias=False)
        self.norm2 = BatchNorm(leaving, rectify=True)
        self.shortcut = nn.Sequential()
        if stride != 1 or entering != leaving:
            projection = nn.Conv2d(entering, leaving, 1, stride, bias=False)
            self.shortcut = nn.Sequential(projection, BatchNorm(leaving))

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.norm2(self.conv2(self.norm1(self.conv1(x))), self.shortcut(x))
        return out


class FirstConvolution(nn.Conv2d):
    """A convolution of few channels: a GPU multiplies eight at a time, so the rest are zeros."""

    def forward(self, x: Tensor) -> Tensor:
        if not x.is_cuda:
            return super().forward(x)
        padding = (0, 0, 0, 0, 0, -self.in_channels % 8)
        x, weight = F.pad(x, padding), F.pad(self.weight, padding)
        return F.conv2d(x, weight, self.bias, self.stride, self.padding)


class GlobalAverage(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.mean(dim=(2, 3))


@ENCODERS.register("resnet18")
def resnet18(shape: Shape) -> nn.Module:
    """ResNet-18 with a 3x3 stem and no pooling before the blocks, for small images; 512 features."""
    stages = [(64, 64, 1), (64, 128, 2), (128, 256, 2), (256, 512, 2)]
    layers: list[nn.Module] = [
        FirstConvolution(shape[0], 64, 3, padding=1, bias=False),
        BatchNorm(64, rectify=True),
    ]
    for entering, leaving, stride in stages:
        layers += [ResidualBlock(entering, leaving, stride), ResidualBlock(leaving, leaving, 1)]
    return nn.Sequential(*layers, GlobalAverage())


@ENCODERS.register("small-cnn")
def small_cnn(shape: Shape) -> nn.Module:
    """Three 3x3 convolutions with BatchNorm, for 8x8 and 28x28 images; 128 features."""
    layers: list[nn.Module] = []
    for entering, leaving, stride in [(shape[0], 32, 1), (32, 64, 2), (64, 128, 2)]:
        convolution = nn.Conv2d(entering, leaving, 3, stride, padding=1, bias=False)
        layers += [convolution, BatchNorm(leaving, rectify=True)]
    return nn.Sequential(*layers, GlobalAverage())
