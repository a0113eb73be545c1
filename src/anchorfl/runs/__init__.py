"""What a run leaves on disk, and its one reader. Nothing here imports torch."""

from anchorfl.doors import door

__getattr__ = door(__name__, __file__)
