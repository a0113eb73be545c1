"""What travels between sites and server, as values and as bytes."""

from anchorfl.wire.codec import FORMAT, checked_name, digest, kind_of, pack, unpack
from anchorfl.wire.description import Description, Request
from anchorfl.wire.manifest import Part, by_kind, manifest
from anchorfl.wire.signatures import doubt_in_signature, sign
from anchorfl.wire.start import Start, described_width, describer_for, read_start
from anchorfl.wire.task import Task, shared_settings, shared_target
from anchorfl.wire.telemetry import ClientRound
from anchorfl.wire.upload import Upload, complete, frozen_from_bytes, frozen_to_bytes, lacks

__all__ = [
    "FORMAT",
    "ClientRound",
    "Description",
    "Part",
    "Request",
    "Start",
    "Task",
    "Upload",
    "by_kind",
    "checked_name",
    "complete",
    "described_width",
    "describer_for",
    "digest",
    "doubt_in_signature",
    "frozen_from_bytes",
    "frozen_to_bytes",
    "kind_of",
    "lacks",
    "manifest",
    "pack",
    "read_start",
    "shared_settings",
    "shared_target",
    "sign",
    "unpack",
]
