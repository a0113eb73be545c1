"""The statistics of a site's samples by name: sums that an upload contains where a fusion needs them.

Each is a function of some samples that returns tensors; over all samples they are added.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from torch import Tensor

from anchorfl.describe import Sketch, joint_rows, projected, second_moments, with_constant
from anchorfl.models import Encoder
from anchorfl.registry import STATISTICS
from anchorfl.tensors import Tensors


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
    make_sketch: Callable[[], Sketch]

    @cached_property
    def features(self) -> list[Tensor]:
        """N x d of each encoder in question: the site's own, or everybody's."""
        return [self.encode(encoder, self.images).float() for encoder in self.encoders]

    @cached_property
    def sketches(self) -> Tensor:
        rows: Tensor = self.make_sketch()(self.images)
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

    `lasting` means that no training changes it, so that it is made once.
    """

    make: Callable[[Samples], Tensors]
    exchange: int = 1
    lasting: bool = False


def class_means(samples: Samples) -> Tensors:
    """Each class's mean normalised feature, 0 where it may not leave the site."""
    return {"mean": (samples.classes / samples.counts.clamp(min=1)).T @ samples.features[0]}


def feature_moments(samples: Samples) -> Tensors:
    """Mean and mean square of every feature."""
    features, share = samples.features[0], samples.counted / samples.counts.sum().clamp(min=1)
    return {"mean": (share * features).sum(dim=0), "square": (share * features**2).sum(dim=0)}


def sketch_moments(samples: Samples) -> Tensors:
    return samples.moments(with_constant(samples.sketches))


def joint_moments(samples: Samples) -> Tensors:
    return samples.moments(joint_rows(projected(samples.features)))


def joint_sketch_moments(samples: Samples) -> Tensors:
    return samples.moments(joint_rows(projected(samples.features), samples.sketches))


STATISTICS.register("class_means")(Statistic(class_means))
STATISTICS.register("feature_moments")(Statistic(feature_moments))
STATISTICS.register("sketch_moments")(Statistic(sketch_moments, lasting=True))
STATISTICS.register("joint_moments")(Statistic(joint_moments, exchange=2))
STATISTICS.register("joint_sketch_moments")(Statistic(joint_sketch_moments, exchange=2))
