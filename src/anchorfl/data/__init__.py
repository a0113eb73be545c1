"""Official data sets, partitions over clients, and augmentation."""

from anchorfl.doors import door

__getattr__ = door(__name__, __file__)
