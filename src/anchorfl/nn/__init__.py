"""Encoders, the network that clients train, and what runs it."""

from anchorfl.doors import door

__getattr__ = door(__name__, __file__)
