"""What all sites know before they train: the description of an image, and regression on its sums."""

from anchorfl.doors import door

__getattr__ = door(__name__, __file__)
