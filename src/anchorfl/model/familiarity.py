"""How far a picture is from all sites' images, by the sums of descriptions that sites sent."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from anchorfl.randomness import generator

if TYPE_CHECKING:
    from anchorfl.describe import Sums

DIRECTIONS, ROWS_PER_DIRECTION = 64, 20
EXTRA, ITERATIONS = 16, 30
LEAST = 1e-12
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

    @staticmethod
    def of(sums: Sums) -> Familiarity | None:
        """From the sums of all sites; None where there are too few rows for a covariance."""
        rows, known = float(sums.counts.sum()), sums.counts > 0
        means, within = sums.within
        means = means[:, known]
        width, classes = means.shape
        if rows <= classes + ROWS_PER_DIRECTION:
            return None
        kept = min(DIRECTIONS, int(rows) // ROWS_PER_DIRECTION, width - 1)
        values, directions = largest_directions(within, kept)
        other = ((within.trace() - values.sum()) / (width - kept)).clamp(min=LEAST)
        expected = torch.tensor(kept / (1 - (kept + classes) / rows) + width - kept)
        parts = (means.T, directions, values.clamp(min=LEAST), other, expected)
        return Familiarity(*(part.float().cpu().contiguous() for part in parts))

    def forward(self, rows: Tensor) -> Tensor:
        along = (rows @ self.directions)[:, None] - self.means @ self.directions
        along = along.square()
        lengths = rows.square().sum(dim=1, keepdim=True) + self.means.square().sum(dim=1)
        left = (lengths - 2 * rows @ self.means.T - along.sum(dim=2)).clamp(min=0)
        squared = (along / self.variances).sum(dim=2) + left / self.other
        found = squared.amin(dim=1) / (LIMIT * self.expected)
        flat = rows.norm(dim=1) < FAINT
        return torch.where(flat, found.clamp(min=LIMIT), found)


def largest_directions(symmetric: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The largest eigenvalues and their vectors, by subspace iteration (Halko et al., 2011)."""
    width = len(symmetric)
    draw = torch.randn(width, min(count + EXTRA, width), generator=generator(0, "directions"))
    basis = torch.linalg.qr(draw.to(symmetric)).Q
    for _ in range(ITERATIONS):
        basis = torch.linalg.qr(symmetric @ basis).Q
    values, vectors = torch.linalg.eigh(basis.T @ symmetric @ basis)
    return values.flip(0)[:count], (basis @ vectors).flip(1)[:, :count]
