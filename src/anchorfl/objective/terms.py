"""What a loss term is: the batch it sees, a part of B, and what A is measured against."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from anchorfl.registry import Registry
from anchorfl.tensors import Tensor


@dataclass
class Views:
    """Both augmented views of a batch, encoded: rows 0..N/2-1 are first views, the rest second ones.

    f: N x d L2-normalised features, P: C x d prototypes (not normalised), y: N labels, w: N sample
    weights, 0 for padding.
    """

    features: Tensor
    prototypes: Tensor
    labels: Tensor
    weights: Tensor

    @cached_property
    def logits(self) -> Tensor:
        """f P'."""
        return self.features @ self.prototypes.T


@dataclass(frozen=True)
class BaseTerm:
    """A part of B: its formula in words, and the loss of a batch."""

    formula: str
    loss: Callable[[Views], Tensor]


@dataclass(frozen=True)
class AlignTarget(ABC):
    """What clients align to: a tensor that the Task carries, and the loss A against it.

    The fields of a subclass are its options, `align.NAME` on the command line, beside those of the
    balance. `needs_public` where the server makes the tensor from a public share, `fixed` where the
    seed fixes it for the whole run.
    """

    needs_public: ClassVar[bool] = False
    fixed: ClassVar[bool] = False

    @property
    @abstractmethod
    def formula(self) -> str:
        """A in words."""

    def derived(self, classes: int, dimension: int, seed: int) -> Tensor | None:
        """The tensor, where every site can derive it from the seed."""
        return None

    @abstractmethod
    def loss(self, views: Views, target: Tensor) -> Tensor:
        """A of a batch."""


BASE_TERMS: Registry[BaseTerm] = Registry("base term", "anchorfl.objective.base_terms")
ALIGN_TARGETS: Registry[type[AlignTarget]] = Registry("align target", "anchorfl.objective.targets")
