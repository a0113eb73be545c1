"""A federation in one process, or on Flower's simulation runtime."""

from anchorfl.doors import door

__getattr__ = door(__name__, __file__)
