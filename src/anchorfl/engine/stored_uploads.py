"""The uploads that a run's folder keeps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from anchorfl.errors import UserError
from anchorfl.runs import Run, RunFolder
from anchorfl.wire import Upload, complete, frozen_from_bytes, frozen_to_bytes


def packed(uploads: Sequence[Upload]) -> dict[int, bytes]:
    """By client, what travels."""
    return {upload.client: upload.to_bytes() for upload in uploads}


def write_uploads(folder: RunFolder, uploads: Sequence[Upload], data: Mapping[int, bytes]) -> None:
    """One file per client, and what they all leave out once."""
    frozen = {upload.network: upload.frozen for upload in uploads if upload.frozen}
    folder.write_uploads(data, frozen_to_bytes(frozen) if frozen else None)


def uploads_of(run: Run, device: torch.device) -> list[Upload]:
    """A finished run's uploads on a device, complete."""
    files = run.require_end().files
    uploads = [Upload.from_bytes(data) for data in files.read_uploads(run.summary.upload_bytes)]
    if not uploads:
        raise UserError(f"{run.folder}: the run did not finish, so there is nothing to predict with")
    frozen = frozen_from_bytes(files.frozen.read_bytes()) if files.frozen.is_file() else {}
    return complete(uploads, frozen, device)
