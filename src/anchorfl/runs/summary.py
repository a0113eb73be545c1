"""What is left of a run when it ends: summary.json, typed."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from anchorfl.runs.numbers import top

ByFusion = dict[str, float]


@dataclass(frozen=True)
class Summary:
    """The keys of summary.json; what a run that broke off, or an earlier version, did not know is None.

    `peak_test_accuracy` is for looking, never for choosing. Accuracies are in 0..1.
    """

    method: str | None = None
    dataset: str | None = None
    seed: int | None = None
    status: str = "unfinished"
    rounds: int | None = None
    final_accuracy: ByFusion | None = None
    peak_test_accuracy: ByFusion = field(default_factory=dict)
    validation_accuracy: ByFusion | None = None
    balanced_accuracy: ByFusion | None = None
    macro_f1: ByFusion | None = None
    local_accuracy: list[float | None] | None = None
    site_accuracy: list[float | None] | None = None
    temperature: ByFusion | None = None
    calibration_error: ByFusion | None = None
    confusion: dict[str, list[list[int]]] | None = None
    seconds: float | None = None
    train_seconds: float | None = None
    samples_per_second: float | None = None
    task_bytes: int | None = None
    upload_bytes: list[int | None] = field(default_factory=list)
    exchange_bytes: list[int] | None = None
    fusion_bytes: ByFusion | None = None
    server_seconds: ByFusion | None = None
    prediction_ms: ByFusion | None = None
    prediction_flops: ByFusion | None = None
    partition_hash: str | None = None
    start: str | None = None
    sites: list[str] | None = None
    label_table: list[list[int]] | None = None
    images: dict[str, Any] | None = None
    class_names: list[str] | None = None
    environment: dict[str, Any] | None = None
    warnings: list[str] = field(default_factory=list)

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=2, allow_nan=False) + "\n"

    @staticmethod
    def from_json(text: str) -> Summary:
        """ValueError where it is none; keys of another version are left out."""
        content = json.loads(text)
        if not isinstance(content, dict) or "status" not in content:
            raise ValueError("no summary")
        known = {item.name for item in fields(Summary)}
        found = {key: value for key, value in content.items() if key in known}
        given = {key for key in CHECKS if found.get(key) is not None}
        if not all(CHECKS[key](found[key]) for key in given) or not of_one_size(found):
            raise ValueError("not what a summary holds")
        return Summary(**found)

    @property
    def ended(self) -> bool:
        return self.status != "unfinished"

    def accuracy(self, fusion: str) -> float | None:
        return (self.final_accuracy or {}).get(fusion)

    def best_client(self) -> float | None:
        """The best that a single client does."""
        return top(self.local_accuracy or [])

    def measured_on(self) -> str:
        """At real sites the fused model is measured on what every site held out."""
        return "held-out images" if self.site_accuracy is not None else "test images"

    def test_images(self) -> int | None:
        """How many images the accuracies were measured on."""
        matrix = next(iter((self.confusion or {}).values()), None)
        return None if matrix is None else sum(map(sum, matrix))


def is_share(value: Any) -> bool:
    return isinstance(value, int | float) and 0 <= value <= 1


def are_accuracies(value: Any) -> bool:
    """By fusion, a share in 0..1."""
    if not isinstance(value, dict):
        return False
    return all(isinstance(name, str) and is_share(share) for name, share in value.items())


def are_names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


def are_counts(value: Any) -> bool:
    """Rows of whole numbers, all of one length."""
    if not isinstance(value, list) or len({len(row) for row in value}) != 1:
        return False
    return all(isinstance(count, int) and count >= 0 for row in value for count in row)


def is_confusion(value: Any) -> bool:
    """By fusion, a square of counts."""
    if not isinstance(value, dict):
        return False
    return all(are_counts(matrix) and len(matrix) == len(matrix[0]) for matrix in value.values())


def are_numbers(value: Any) -> bool:
    """Of every client, or nothing."""
    known = (each is None or isinstance(each, int | float) for each in value)
    return isinstance(value, list) and all(known)


def are_shares(value: Any) -> bool:
    """Of every client in 0..1, or nothing."""
    return isinstance(value, list) and all(each is None or is_share(each) for each in value)


def of_one_size(content: Mapping[str, Any]) -> bool:
    """Every table of counts has a column per class."""
    tables = [
        *(content.get("confusion") or {}).values(),
        content.get("label_table"),
        [content.get("class_names")],
    ]
    return len({len(table[0]) for table in tables if table and table[0] is not None}) <= 1


CHECKS: dict[str, Callable[[Any], bool]] = {
    "final_accuracy": are_accuracies,
    "peak_test_accuracy": are_accuracies,
    "balanced_accuracy": are_accuracies,
    "confusion": is_confusion,
    "local_accuracy": are_shares,
    "site_accuracy": are_shares,
    "upload_bytes": are_numbers,
    "sites": are_names,
    "class_names": are_names,
    "warnings": are_names,
    "label_table": are_counts,
}
"""Values of a summary by key, checked before anything uses them."""
