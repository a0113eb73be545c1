"""Sites that leave and sites that come late: sums are taken away and added, exactly."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from anchorfl.describe import full_gram, in_full, projections, triangle
from anchorfl.errors import UserError
from anchorfl.messages import Upload
from anchorfl.statistics import STATISTICS
from anchorfl.tensors import Tensors, prefixed, section


def without(uploads: Sequence[Upload], gone: Collection[str]) -> list[Upload]:
    """The others' uploads as if some sites had never been there.

    What a site sent goes with its upload. What the others said of its encoder, in a second exchange,
    are rows and columns of their sums.
    """
    present = {upload.site for upload in uploads}
    for site in gone:
        if site not in present:
            there = ", ".join(sorted(present))
            raise UserError(f"--without {site}: there are uploads of {there}")
    if not present - set(gone):
        raise UserError("--without: nobody is left")
    columns = columns_of([upload for upload in uploads if upload.trained], gone)
    return [forgetting(upload, columns) for upload in uploads if upload.site not in gone]


def columns_of(uploads: Sequence[Upload], gone: Collection[str]) -> Tensor | None:
    """Whether each column of a joint description stays; None where they cannot be told apart."""
    widths = [upload.prototypes.shape[1] for upload in uploads]
    if any(matrix is not None for matrix in projections(widths)):
        return None
    stays = [torch.full((upload.prototypes.shape[1],), upload.site not in gone) for upload in uploads]
    return torch.cat(stays) if stays else torch.ones(0, dtype=torch.bool)


def forgetting(upload: Upload, columns: Tensor | None) -> Upload:
    """Sums under everybody's encoders, those of the leaving ones cut out; dropped where that fails."""
    statistics: Tensors = {}
    for name in {key.partition("/")[0] for key in upload.statistics}:
        own = section(upload.statistics, name)
        if STATISTICS.get(name).exchange == 2:
            own = {} if columns is None else cut(in_full(own), columns)
        statistics |= prefixed(name, own)
    return replace(upload, statistics=statistics)


def cut(moments: Tensors, columns: Tensor) -> Tensors:
    """X'X and X'Y of some columns of X; those behind the encoders' (a description, 1) stay."""
    cross = moments["cross"]
    rest = torch.ones(len(cross) - len(columns), dtype=torch.bool)
    stays = torch.cat([columns, rest]).to(cross.device)
    gram = full_gram(moments["triangle"], len(cross))[stays][:, stays]
    half = gram[triangle(len(gram), gram.device)].to(moments["triangle"].dtype)
    return {"triangle": half, "cross": cross[stays]}
