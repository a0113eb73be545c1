"""What travels on Flower: bytes of a task, an upload, a request or an answer, as files contain them."""

from __future__ import annotations

import numpy as np
from flwr.app import Array, ArrayRecord, RecordDict

from anchorfl.errors import UserError

PARTS = "anchorfl"


def packed(**parts: bytes) -> RecordDict:
    """An array each, which Flower sends in pieces."""
    arrays = {name: Array(np.frombuffer(data, np.uint8)) for name, data in parts.items()}
    return RecordDict({PARTS: ArrayRecord(arrays)})


def unpacked(content: RecordDict, name: str) -> bytes:
    """UserError where there is no such part: what comes from elsewhere may be anything."""
    try:
        data: bytes = content.array_records[PARTS][name].numpy().tobytes()
    except (KeyError, ValueError, TypeError, AttributeError, OSError):
        raise UserError(f"contains no {name}") from None
    return data


def has(content: RecordDict, name: str) -> bool:
    return PARTS in content.array_records and name in content.array_records[PARTS]
