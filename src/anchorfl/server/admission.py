"""Uploads as they arrive: admitted, or refused with the reason."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from anchorfl.errors import UserError
from anchorfl.models import Network
from anchorfl.server.fusion import Fusion
from anchorfl.wire import Upload, lacks


def admit(uploads: Sequence[Upload], network: Network) -> None:
    """Refuse uploads whose weights do not fit the network."""
    for upload in uploads:
        try:
            network.check(upload.weights)
        except UserError as error:
            raise UserError(f"the upload of client {upload.client}: {error}") from None


def what_is_lacking(fusions: Mapping[str, Fusion], uploads: Sequence[Upload]) -> dict[str, str]:
    """Why some of the fusions cannot be made of these uploads: the first statistic they lack."""
    return {
        name: f"{lacks(need)}; run again with fusion={name}"
        for name, fusion in fusions.items()
        for need in fusion.needs[::-1]
        if not all(upload.contains(need) for upload in uploads)
    }
