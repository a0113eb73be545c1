"""A start: an encoder that learned to see from synthetic pictures, before anybody's data."""

from anchorfl.start.making import StartOptions, make_start
from anchorfl.start.pictures import synthetic_pictures

__all__ = ["StartOptions", "make_start", "synthetic_pictures"]
