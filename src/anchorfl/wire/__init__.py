"""What travels between sites and server, as values and as bytes."""

from anchorfl.wire.codec import FORMAT, digest, pack, unpack
from anchorfl.wire.description import Description, Request
from anchorfl.wire.start import Start, described_width, describer_for, read_start
from anchorfl.wire.task import Task, shared_target
from anchorfl.wire.telemetry import ClientRound
from anchorfl.wire.upload import Upload, complete, frozen_from_bytes, frozen_to_bytes, lacks

__all__ = [
    "FORMAT",
    "ClientRound",
    "Description",
    "Request",
    "Start",
    "Task",
    "Upload",
    "complete",
    "described_width",
    "describer_for",
    "digest",
    "frozen_from_bytes",
    "frozen_to_bytes",
    "lacks",
    "pack",
    "read_start",
    "shared_target",
    "unpack",
]
