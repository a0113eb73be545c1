"""How far a picture is from all sites' images, by the sums of descriptions that sites sent."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from anchorfl.describe import Sums
from anchorfl.server import ServerView
from anchorfl.wire import Upload

DIRECTIONS, ROWS_PER_DIRECTION = 64, 20
LIMIT = 2.0
"""In units of what images of the sites have on average; docs/serving.md has the false alarms."""
FAINT = 0.5
"""Descriptions have norm 1, and 0 where a picture is all of one shade."""


class Familiarity(nn.Module):
    """Descriptions, N x D -> one number each; above 1 a picture is unlike anything that sites have.

    It is d^2 / (2 E[d^2]), d the Mahalanobis distance to the nearest class mean. The covariance within
    classes has its largest directions as they are and one variance in all others (Tipping and Bishop,
    1999). E[d^2] is that of images which are not in the sums.
    """

    means: Tensor
    directions: Tensor
    variances: Tensor
    other: Tensor
    expected: Tensor

    def __init__(
        self, means: Tensor, directions: Tensor, variances: Tensor, other: Tensor, expected: Tensor
    ) -> None:
        super().__init__()
        self.register_buffer("means", means)  # C x D
        self.register_buffer("directions", directions)  # D x k
        self.register_buffer("variances", variances)  # k
        self.register_buffer("other", other)
        self.register_buffer("expected", expected)

    def forward(self, rows: Tensor) -> Tensor:
        along = (rows @ self.directions)[:, None] - self.means @ self.directions
        along = along.square()
        lengths = rows.square().sum(dim=1, keepdim=True) + self.means.square().sum(dim=1)
        left = (lengths - 2 * rows @ self.means.T - along.sum(dim=2)).clamp(min=0)
        squared = (along / self.variances).sum(dim=2) + left / self.other
        found = squared.amin(dim=1) / (LIMIT * self.expected)
        flat = rows.norm(dim=1) < FAINT
        return torch.where(flat, found.clamp(min=LIMIT), found)


def familiarity_of(uploads: Sequence[Upload], view: ServerView) -> Familiarity | None:
    """From the sums of all sites; None where an upload does not contain them."""
    if not all(upload.contains("sketch_moments") for upload in uploads):
        return None
    return from_sums(view.sums(uploads))


def from_sums(sums: Sums) -> Familiarity | None:
    """None where there are too few rows for a covariance."""
    rows, known = float(sums.counts.sum()), sums.counts > 0
    means, within = sums.within
    means = means[:, known]
    width, classes = means.shape
    if rows <= classes + ROWS_PER_DIRECTION:
        return None
    values, vectors = torch.linalg.eigh(within)
    kept = min(DIRECTIONS, int(rows) // ROWS_PER_DIRECTION, width - 1)
    values, vectors = values.clamp(min=1e-12).flip(0), vectors.flip(1)
    expected = torch.tensor(kept / (1 - (kept + classes) / rows) + width - kept)
    parts = (means.T, vectors[:, :kept], values[:kept], values[kept:].mean(), expected)
    return Familiarity(*(part.float().contiguous() for part in parts))
