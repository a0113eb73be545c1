"""What two folders of the same experiment must share, however the runs in them went."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

TIMES = {
    *("seconds", "train_seconds", "upload_seconds", "evaluate_seconds", "samples_per_second"),
    *("server_seconds", "prediction_ms", "environment"),
}


def without_times(record: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in record.items() if key not in TIMES}


def content(folder: Path) -> dict[str, Any]:
    """Metrics, summary, uploads and model, byte by byte where nothing in them is a time."""
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    return {
        "metrics": [without_times(json.loads(line)) for line in lines],
        "summary": without_times(json.loads((folder / "summary.json").read_text())),
        "uploads": {file.name: file.read_bytes() for file in (folder / "uploads").iterdir()},
        "model": (folder / "model.safetensors").read_bytes(),
    }


def assert_same(one: Path, other: Path) -> None:
    first, second = content(one), content(other)
    for part in first:
        assert first[part] == second[part], f"{part} of {one.name} and {other.name}"
    for folder in (one, other):
        assert not (folder / "checkpoints").exists()
        assert not [file for file in folder.iterdir() if file.name.startswith(".")]
