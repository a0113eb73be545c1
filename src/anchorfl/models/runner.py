"""A network on a device, in a precision: it encodes images under whatever weights it is given."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.func import functional_call

from anchorfl.compute import kernels_work, set_precision, working_precision
from anchorfl.config import PLAINLY, Look
from anchorfl.models.batchnorm import batchnorms
from anchorfl.models.network import Network
from anchorfl.tensors import Tensors

LAYOUT = torch.channels_last


class Runner:
    """Holds a network whose own weights count for nothing; sites train with it, a server encodes."""

    def __init__(
        self, network: Network, device: torch.device, precision: str = "fp32", kernels: bool = False
    ) -> None:
        self.device = device
        self.precision = working_precision(precision, device)
        set_precision(self.precision, device)
        self.network = network.to(device=device)
        self.network.to(memory_format=LAYOUT)  # type: ignore[call-overload]
        self.norms = batchnorms(self.network)
        self.kernels = kernels and kernels_work(device)
        for norm in self.norms.values():
            norm.use_kernel = self.kernels

    def encode(self, weights: Tensors, images: Tensor, normalise: bool = True) -> Tensor:
        """Features of images in 0..1 under the given parameters and buffers, in working precision."""
        reduced = self.precision == "bf16"
        with torch.autocast(self.device.type, torch.bfloat16, enabled=reduced):
            features: Tensor = functional_call(self.network, weights, (images, normalise))
        return features


class Encoder(NamedTuple):
    """Weights, and the name of the network that they belong to."""

    name: str
    weights: Tensors


class Runners:
    """The networks of a federation by name, each made when it is first needed.

    An encoder without a name is of the first: an upload of one network need not name it. `look` is how
    encoders are shown an image after training; no training step does so.
    """

    def __init__(
        self,
        networks: Mapping[str, Callable[[], Network]],
        device: torch.device,
        precision: str = "fp32",
        kernels: bool = False,
        look: Look = PLAINLY,
    ) -> None:
        self.device, self.look = device, look
        self.names = list(networks)

        @cache
        def made(name: str) -> Runner:
            return Runner(networks[name](), device, precision, kernels)

        self._made = made

    def __getitem__(self, name: str) -> Runner:
        return self._made(name or self.names[0])

    def evaluation_mode(self, encoders: Iterable[Encoder]) -> None:
        """For these encoders' networks, so that BatchNorm uses its statistics."""
        for encoder in encoders:
            self[encoder.name].network.eval()

    def encode(self, encoder: Encoder, images: Tensor, normalise: bool = True) -> Tensor:
        def encoded(some: Tensor, whole: bool) -> Tensor:
            return self[encoder.name].encode(encoder.weights, some, whole)

        return shown(encoded, images, normalise, self.look)


def shown(
    encoded: Callable[[Tensor, bool], Tensor], images: Tensor, normalise: bool, look: Look
) -> Tensor:
    """Features of the middle of each image, the mean with those of its mirror image where so wanted.

    Views in training are enlarged pieces, so an encoder knows things larger than they are in a whole
    image (Touvron et al., 2019).
    """
    height, width = images.shape[2:]
    above, left = (min(round(side * (1 - look.zoom) / 2), (side - 1) // 2) for side in (height, width))
    if above or left:
        middle = images[:, :, above : height - above, left : width - left]
        images = F.interpolate(middle, size=(height, width), mode="bilinear", align_corners=False)
    if not look.mirrored:
        return encoded(images, normalise)
    features = (encoded(images, False) + encoded(images.flip(3), False)) / 2
    return F.normalize(features, dim=1) if normalise else features
