"""What a client minimises: base terms, what it aligns to, schedules, and who sets lambda.

This door imports no torch, so that a forecast starts at once; the losses themselves are reached
through the registries of base terms and align targets.
"""

from anchorfl.objective.balance import (
    EXPLODED,
    Balance,
    ClientFacts,
    Given,
    Losses,
    NoAlignment,
    Point,
    RoundMeans,
    Setting,
    Uncertainty,
    label_entropy,
    yardstick,
)
from anchorfl.objective.schedules import Moment, Schedule
from anchorfl.objective.targets import Bank
from anchorfl.objective.terms import AlignTarget, BaseTerm, Views

__all__ = [
    "EXPLODED",
    "AlignTarget",
    "Balance",
    "Bank",
    "BaseTerm",
    "ClientFacts",
    "Given",
    "Losses",
    "Moment",
    "NoAlignment",
    "Point",
    "RoundMeans",
    "Schedule",
    "Setting",
    "Uncertainty",
    "Views",
    "label_entropy",
    "yardstick",
]
