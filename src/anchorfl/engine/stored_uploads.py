"""The uploads that a run's folder keeps, and the start that all its sites had."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from anchorfl.errors import UserError
from anchorfl.files import write_whole
from anchorfl.runs import Run, RunFolder
from anchorfl.wire import Start, Upload, complete, frozen_from_bytes, frozen_to_bytes


def messages_of(uploads: Sequence[Upload]) -> dict[int, bytes]:
    """By client, what travels."""
    return {upload.client: upload.to_bytes() for upload in uploads}


def write_uploads(folder: RunFolder, uploads: Sequence[Upload], data: Mapping[int, bytes]) -> None:
    """One file per client, and what they all leave out once."""
    frozen = {upload.network: upload.frozen for upload in uploads if upload.frozen}
    folder.write_uploads(data, frozen_to_bytes(frozen) if frozen else None)


def keep_start(folder: RunFolder, start: Start | None) -> None:
    """Beside the uploads, once; a run that goes on must have the start that it began with."""
    if folder.start.is_file():
        if start is None or Start.from_bytes(folder.start.read_bytes()).hash != start.hash:
            raise UserError(f"model.weights is not the start that {folder.path} began with")
    elif start is not None:
        folder.start.parent.mkdir(exist_ok=True)
        write_whole(folder.start, start.to_bytes())


def start_of(run: Run) -> Start | None:
    """What a run's sites started from, and described their images by."""
    file = run.files.start
    if not file.is_file():
        if run.summary.start is not None:
            raise UserError(f"{file}: is missing")
        return None
    start = Start.from_bytes(file.read_bytes())
    if start.hash != run.summary.start:
        raise UserError(f"{file}: is not the start that the run had")
    return start


def uploads_of(run: Run, device: torch.device) -> list[Upload]:
    """A finished run's uploads on a device, complete."""
    files = run.require_end().files
    uploads = [Upload.from_bytes(data) for data in files.read_uploads(run.summary.upload_bytes)]
    if not uploads:
        raise UserError(f"{run.folder}: the run did not finish, so there is nothing to predict with")
    frozen = frozen_from_bytes(files.frozen.read_bytes()) if files.frozen.is_file() else {}
    return complete(uploads, frozen, device)
