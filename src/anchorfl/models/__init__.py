"""Encoders, the network that clients train, and what runs it."""

from anchorfl.models.batchnorm import BatchNorm, averaging, batchnorms
from anchorfl.models.custom import build_encoder
from anchorfl.models.encoders import EncoderFactory
from anchorfl.models.network import Network, build_network
from anchorfl.models.runner import LAYOUT, Runner

__all__ = [
    "LAYOUT",
    "BatchNorm",
    "EncoderFactory",
    "Network",
    "Runner",
    "averaging",
    "batchnorms",
    "build_encoder",
    "build_network",
]
