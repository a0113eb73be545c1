"""What a run's folder keeps beside its records, and who listens to every run."""

from __future__ import annotations

import platform
import shutil
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

import torch

from anchorfl.compute import device_name
from anchorfl.config import Config
from anchorfl.errors import UserError
from anchorfl.events import LISTENERS, TRACKERS, Listener
from anchorfl.files import write_whole
from anchorfl.messages import Start, Upload, frozen_from_bytes, frozen_to_bytes
from anchorfl.runs import Run, RunFolder, holds_anything
from anchorfl.settings import flatten
from anchorfl.tensors import Tensors
from anchorfl.version import __version__


def write_frozen(folder: RunFolder, uploads: Iterable[Upload]) -> None:
    """What all uploads leave out, once."""
    frozen = {upload.network: upload.frozen for upload in uploads if upload.frozen}
    if frozen:
        write_whole(folder.frozen, frozen_to_bytes(frozen))


def frozen_of(run: Run) -> dict[str, Tensors]:
    """By network, the part that no upload contains."""
    file = run.files.frozen
    return frozen_from_bytes(file.read_bytes()) if file.is_file() else {}


def keep_start(folder: RunFolder, start: Start | None) -> None:
    """Beside the uploads, once; a run that is resumed must have the start that it began with."""
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


def uploads_of(run: Run) -> Sequence[Upload]:
    """A finished run's uploads, in the order of its sites."""
    files = run.require_end().files
    uploads = [Upload.from_bytes(data) for data in files.read_uploads(run.summary.upload_bytes)]
    if not uploads:
        raise UserError(f"{run.folder}: the run did not finish, so there is nothing to fuse")
    return uploads


def environment(device: torch.device, threads: int | None) -> dict[str, Any]:
    """What a run was made with."""
    return {
        "anchorfl": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "device": device_name(device),
        "threads": threads,
        "platform": platform.platform(),
        "ended": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def named_listeners(folder: RunFolder, config: Config) -> list[Listener]:
    """Those of every run, the page among them, and the tracker that `track` names.

    Where one cannot be had, the folder that was made for the run goes again.
    """
    factories = [LISTENERS.get(name) for name in LISTENERS.names()]
    if config.general.track is not None:
        factories.append(TRACKERS.get(config.general.track))
    try:
        settings = flatten(config.to_dict())
        return [make(folder.path, settings) for make in factories]
    except BaseException:
        if not holds_anything(folder.path):
            shutil.rmtree(folder.path)
        raise
