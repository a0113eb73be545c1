"""How right predictions are: accuracy, recall, calibration."""

from anchorfl.doors import door

__getattr__ = door(__name__, __file__)
