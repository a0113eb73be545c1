"""Rounds of training, whoever trains in them, and the folder that they are written in."""

from anchorfl.doors import door

__getattr__ = door(__name__, __file__)
