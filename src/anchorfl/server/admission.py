"""Uploads as they arrive: admitted, or refused with the reason."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from anchorfl.errors import UserError
from anchorfl.models import Runners
from anchorfl.server.fusion import SKETCH, Fusion
from anchorfl.wire import Upload, lacks


def admit(uploads: Sequence[Upload], runners: Runners) -> None:
    """Refuse uploads of a network that the experiment has not, or whose weights do not fit it."""
    for upload in uploads:
        try:
            if upload.network and upload.network not in runners.names:
                raise UserError(f"is of {upload.network}, not of {', '.join(runners.names)}")
            if upload.trained:
                runners[upload.network].network.check(upload.weights)
        except UserError as error:
            raise UserError(f"the upload of client {upload.client}: {error}") from None


def what_is_lacking(fusions: Mapping[str, Fusion], uploads: Sequence[Upload]) -> dict[str, str]:
    """Why some of the fusions cannot be made of these uploads: the first thing they lack."""
    mixed = len({upload.network for upload in uploads}) > 1
    missing = {}
    for name, fusion in fusions.items():
        for need in fusion.needs[::-1]:
            if not all(upload.contains(need) for upload in uploads):
                missing[name] = f"{lacks(need)}; run again with fusion={name}"
        if mixed and not fusion.mixes:
            missing[name] = "these uploads are of different networks, and it takes one"
        if not any(upload.trained for upload in uploads) and fusion.reads != SKETCH:
            missing[name] = "these uploads contain no weights"
    return missing
