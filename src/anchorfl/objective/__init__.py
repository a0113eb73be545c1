"""What a client minimises: base terms, what it aligns to, schedules, and who sets lambda.

This door imports no torch, so that a forecast starts at once; the losses themselves are reached
through the registries of base terms and align targets.
"""

from anchorfl.doors import door

__getattr__ = door(__name__, __file__)
