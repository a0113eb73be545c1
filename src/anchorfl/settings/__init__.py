"""From words, presets and defaults to a checked experiment."""

from anchorfl.doors import door

__getattr__ = door(__name__, __file__)
