"""What travels between sites and server, as values and as bytes."""

from anchorfl.doors import door

__getattr__ = door(__name__, __file__)
