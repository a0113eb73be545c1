"""A network on a device, in a precision: it encodes images under whatever weights it is given."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.func import functional_call

from anchorfl.compute import kernels_work, set_precision, working_precision
from anchorfl.nn.batchnorm import batchnorms
from anchorfl.nn.network import PLAINLY, Look, Network, shown
from anchorfl.tensors import Encoder, Tensors

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


@dataclass
class Runners:
    """The networks of a federation by name, each made when it is first needed.

    An encoder without a name is of the first: an upload of one network need not name it. `look` is how
    encoders are shown an image after training; no training step does so.
    """

    networks: Mapping[str, Callable[[], Network]]
    device: torch.device
    precision: str = "fp32"
    kernels: bool = False
    look: Look = PLAINLY
    made: dict[str, Runner] = field(default_factory=dict)

    @property
    def names(self) -> list[str]:
        return list(self.networks)

    def __getitem__(self, name: str) -> Runner:
        name = name or self.names[0]
        if name not in self.made:
            network = self.networks[name]()
            self.made[name] = Runner(network, self.device, self.precision, self.kernels)
        return self.made[name]

    def evaluation_mode(self, encoders: Iterable[Encoder]) -> None:
        """For these encoders' networks, so that BatchNorm uses its statistics."""
        for encoder in encoders:
            self[encoder.name].network.eval()

    def encode(self, encoder: Encoder, images: Tensor, normalise: bool = True) -> Tensor:
        def encoded(some: Tensor, whole: bool) -> Tensor:
            return self[encoder.name].encode(encoder.weights, some, whole)

        return shown(encoded, images, normalise, self.look)
