"""What travels: bytes of a task, an upload, a request or an answer, as the files contain them."""

from __future__ import annotations

import numpy as np
from flwr.app import Array, ArrayRecord, RecordDict


def packed(**parts: bytes) -> RecordDict:
    """An array each, which Flower sends in pieces."""
    arrays = {name: Array(np.frombuffer(data, np.uint8)) for name, data in parts.items()}
    return RecordDict({"anchorfl": ArrayRecord(arrays)})


def unpacked(content: RecordDict, name: str) -> bytes:
    return content["anchorfl"][name].numpy().tobytes()
