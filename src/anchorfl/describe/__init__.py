"""What all sites know before they train: the description of an image, and regression on its sums."""

from anchorfl.describe.describer import Describer, Stages, principal_basis
from anchorfl.describe.factored import (
    FACTOR_PARTS,
    NOT_SINGLE,
    factored,
    factored_shapes,
    in_eight_bits,
    in_full,
    in_single,
    is_factored,
)
from anchorfl.describe.joint import joint_rows, projected, projections
from anchorfl.describe.moments import (
    full_gram,
    second_moments,
    summed,
    triangle,
    with_constant,
)
from anchorfl.describe.plausible import (
    Claim,
    doubt_in_feature_moments,
    doubt_in_means,
    doubt_in_moments,
)
from anchorfl.describe.regression import Sums, discriminant, ridge
from anchorfl.describe.sketch import Sketch, dead_leaves

__all__ = [
    "FACTOR_PARTS",
    "NOT_SINGLE",
    "Claim",
    "Describer",
    "Sketch",
    "Stages",
    "Sums",
    "dead_leaves",
    "discriminant",
    "doubt_in_feature_moments",
    "doubt_in_means",
    "doubt_in_moments",
    "factored",
    "factored_shapes",
    "full_gram",
    "in_eight_bits",
    "in_full",
    "in_single",
    "is_factored",
    "joint_rows",
    "principal_basis",
    "projected",
    "projections",
    "ridge",
    "second_moments",
    "summed",
    "triangle",
    "with_constant",
]
