"""What a site tells of its samples beside its weights: sums that fusions need, by name."""

from anchorfl.doors import door

__getattr__ = door(__name__, __file__)
