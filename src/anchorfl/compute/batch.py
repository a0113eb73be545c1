"""A batch of a client's samples, as a step takes it."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Batch:
    """Images as bytes, labels, augmentation draws of two views (2 x N x parameters), weights.

    `weights` is None where every sample counts; else a sample of weight 0 is padding.
    """

    images: Tensor
    labels: Tensor
    draws: Tensor
    weights: Tensor | None = None

    def size(self) -> Tensor | int:
        """How many samples count; a tensor on the device where some are padding."""
        return len(self.labels) if self.weights is None else self.weights.sum()

    def padded(self, size: int) -> Batch:
        """The same samples, and padding behind them."""
        longer = Batch(
            self.images.new_zeros(size, *self.images.shape[1:]),
            self.labels.new_zeros(size),
            self.draws.new_zeros(len(self.draws), size, self.draws.shape[2]),
            self.draws.new_zeros(size),
        )
        longer.fill(self)
        return longer

    def fill(self, other: Batch) -> None:
        """Take over another batch's samples, in place; what they leave of this one is padding."""
        count = len(other.labels)
        self.images[:count].copy_(other.images)
        self.labels[:count].copy_(other.labels)
        self.draws[:, :count].copy_(other.draws)
        if self.weights is not None:
            self.weights[:count].fill_(1.0)
            self.weights[count:].zero_()
