"""What a server makes of uploads: each fusion gives the head of one model."""

from anchorfl.doors import door

__getattr__ = door(__name__, __file__)
