"""Encoders, the network that clients train, and what runs it."""

from anchorfl.models.batchnorm import BatchNorm, averaging, batchnorms
from anchorfl.models.custom import build_encoder, public_name
from anchorfl.models.encoders import EncoderFactory
from anchorfl.models.network import Network, build_network
from anchorfl.models.runner import LAYOUT, Encoder, Runner, Runners, shown

__all__ = [
    "LAYOUT",
    "BatchNorm",
    "Encoder",
    "EncoderFactory",
    "Network",
    "Runner",
    "Runners",
    "averaging",
    "batchnorms",
    "build_encoder",
    "build_network",
    "public_name",
    "shown",
]
