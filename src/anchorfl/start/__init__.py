"""A start: an encoder that learned to see from synthetic pictures, before anybody's data."""

from anchorfl.start.making import StartOptions, make_start

__all__ = ["StartOptions", "make_start"]
