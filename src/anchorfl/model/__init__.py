"""The fused model: an ordinary module, its file, its answers, and one network in its place."""

from anchorfl.doors import door

__getattr__ = door(__name__, __file__)
