"""The statistics of a site's samples by name: sums that an upload contains where a fusion needs them.

Each is a function of some samples that returns tensors; over all samples they are added.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from torch import Tensor
from torch.linalg import matrix_norm

from anchorfl.describe import (
    Claim,
    Describer,
    doubt_in_feature_moments,
    doubt_in_means,
    doubt_in_moments,
    joint_rows,
    projected,
    projections,
    second_moments,
    with_constant,
)
from anchorfl.registry import Registry
from anchorfl.tensors import Encoder, Tensors


@dataclass
class Samples:
    """Some of a site's samples, and what they can be described with.

    `classes` (N x C) are unit rows and `counts` (C) how many samples the site has of each, both 0 for
    a class of too few to leave the site (`upload.min_count`).
    """

    images: Tensor
    classes: Tensor
    counts: Tensor
    encoders: Sequence[Encoder]
    encode: Callable[[Encoder, Tensor], Tensor]
    describer: Callable[[], Describer]

    @cached_property
    def features(self) -> list[Tensor]:
        """N x d of each encoder in question: the site's own, or everybody's."""
        return [self.encode(encoder, self.images).float() for encoder in self.encoders]

    @cached_property
    def descriptions(self) -> Tensor:
        """N x width, by what all sites share."""
        rows: Tensor = self.describer()(self.images)
        return rows

    @property
    def counted(self) -> Tensor:
        """N x 1: 1 for a sample whose class may leave the site."""
        return self.classes.sum(dim=1, keepdim=True)

    def moments(self, rows: Tensor) -> Tensors:
        return second_moments(rows * self.counted, self.classes)


@dataclass(frozen=True)
class Statistic:
    """`exchange` 2 means: made in a second exchange, under everybody's encoders.

    `lasting` means that no training changes it, so that it is made once. `shapes` are those of its
    tensors, and `doubt` is why finite tensors of these shapes cannot be what they are said to be.
    `sums` are X'X and X'Y, which travel as `describe.sums` says; of rows whose last numbers before the
    constant describe an image, where it `ends_in_description`.
    """

    make: Callable[[Samples], Tensors]
    exchange: int = 1
    lasting: bool = False
    sums: bool = False
    ends_in_description: bool = False
    shapes: Callable[[Claim], dict[str, tuple[int, ...]]] | None = None
    doubt: Callable[[Tensors, Claim], str | None] = lambda tensors, claim: None


STATISTICS: Registry[Statistic] = Registry("statistic")


def exchanges(needs: Iterable[str]) -> int:
    """How often a site is asked: once, or again to describe its data under all encoders."""
    return max((STATISTICS.get(need).exchange for need in needs), default=1)


def class_means(samples: Samples) -> Tensors:
    """Each class's mean normalised feature, 0 where it may not leave the site."""
    return {"mean": (samples.classes / samples.counts.clamp(min=1)).T @ samples.features[0]}


def feature_moments(samples: Samples) -> Tensors:
    """Mean and mean square of every feature."""
    features, share = samples.features[0], samples.counted / samples.counts.sum().clamp(min=1)
    return {"mean": (share * features).sum(dim=0), "square": (share * features**2).sum(dim=0)}


def sketch_moments(samples: Samples) -> Tensors:
    return samples.moments(with_constant(samples.descriptions))


def joint_moments(samples: Samples) -> Tensors:
    return samples.moments(joint_rows(projected(samples.features)))


def joint_sketch_moments(samples: Samples) -> Tensors:
    return samples.moments(joint_rows(projected(samples.features), samples.descriptions))


def moment_shapes(width: int, claim: Claim) -> dict[str, tuple[int, ...]]:
    """Of rows of a width, and a constant."""
    columns = width + 1
    return {"triangle": (columns * (columns + 1) // 2,), "cross": (columns, len(claim.counts))}


def joint_width(claim: Claim) -> int:
    matrices = projections(claim.widths)
    pairs = zip(claim.widths, matrices, strict=True)
    return sum(width if matrix is None else matrix.shape[1] for width, matrix in pairs)


def joint_norm(claim: Claim) -> float:
    """The largest squared norm of all features in one row: 1 each, and more where projected."""
    matrices = projections(claim.widths)
    return sum(1.0 if each is None else float(matrix_norm(each, 2)) ** 2 for each in matrices)


STATISTICS.register("class_means")(
    Statistic(
        class_means,
        shapes=lambda claim: {"mean": (len(claim.counts), claim.widths[0])},
        doubt=lambda own, claim: doubt_in_means(own["mean"], claim.counts),
    )
)
STATISTICS.register("feature_moments")(
    Statistic(
        feature_moments,
        shapes=lambda claim: {"mean": (claim.widths[0],), "square": (claim.widths[0],)},
        doubt=lambda own, claim: doubt_in_feature_moments(own["mean"], own["square"]),
    )
)
STATISTICS.register("sketch_moments")(
    Statistic(
        sketch_moments,
        lasting=True,
        sums=True,
        ends_in_description=True,
        shapes=lambda claim: moment_shapes(claim.described, claim),
        doubt=lambda own, claim: doubt_in_moments(own, claim.counts, 1.0),
    )
)
STATISTICS.register("joint_moments")(
    Statistic(
        joint_moments,
        exchange=2,
        sums=True,
        shapes=lambda claim: moment_shapes(joint_width(claim), claim),
        doubt=lambda own, claim: doubt_in_moments(own, claim.counts, joint_norm(claim)),
    )
)
STATISTICS.register("joint_sketch_moments")(
    Statistic(
        joint_sketch_moments,
        exchange=2,
        sums=True,
        ends_in_description=True,
        shapes=lambda claim: moment_shapes(joint_width(claim) + claim.described, claim),
        doubt=lambda own, claim: doubt_in_moments(own, claim.counts, joint_norm(claim) + 1.0),
    )
)
