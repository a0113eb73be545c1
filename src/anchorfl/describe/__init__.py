"""What all sites know before they train: the fixed sketch, and regression on sums of descriptions."""

from anchorfl.describe.joint import joint_rows, projected, projections
from anchorfl.describe.moments import ridge, second_moments, with_constant
from anchorfl.describe.plausible import (
    Claim,
    doubt_in_feature_moments,
    doubt_in_means,
    doubt_in_moments,
)
from anchorfl.describe.sketch import Sketch, dead_leaves

__all__ = [
    "Claim",
    "Sketch",
    "dead_leaves",
    "doubt_in_feature_moments",
    "doubt_in_means",
    "doubt_in_moments",
    "joint_rows",
    "projected",
    "projections",
    "ridge",
    "second_moments",
    "with_constant",
]
