"""What is left of a run when it ends: summary.json, typed."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, fields
from typing import Any

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
        for key, check in CHECKS.items():
            if found.get(key) is not None:
                check(found[key])
        check_sizes(found)
        return Summary(**found)

    @property
    def ended(self) -> bool:
        return self.status != "unfinished"

    def accuracy(self, fusion: str) -> float | None:
        return (self.final_accuracy or {}).get(fusion)

    def best_client(self) -> float | None:
        """The best that a single client does."""
        return max((value for value in self.local_accuracy or [] if value is not None), default=None)

    def measured_on(self) -> str:
        """At real sites the fused model is measured on what every site held out."""
        return "held-out images" if self.site_accuracy is not None else "test images"

    def test_images(self) -> int | None:
        """How many images the accuracies were measured on."""
        matrix = next(iter((self.confusion or {}).values()), None)
        return None if matrix is None else sum(map(sum, matrix))


def check_accuracies(value: object) -> None:
    """By fusion, a share in 0..1."""
    expect(isinstance(value, dict))
    for name, share in value.items():  # type: ignore[attr-defined]
        expect(isinstance(name, str) and isinstance(share, int | float) and 0 <= share <= 1)


def check_names(value: object) -> None:
    expect(isinstance(value, list) and all(isinstance(name, str) for name in value))


def check_counts(value: object) -> None:
    """Rows of whole numbers, all of one length."""
    expect(isinstance(value, list) and len({len(row) for row in value}) == 1)
    expect(all(isinstance(count, int) and count >= 0 for row in value for count in row))  # type: ignore[attr-defined]


def check_confusion(value: object) -> None:
    """By fusion, a square of counts."""
    expect(isinstance(value, dict))
    for matrix in value.values():  # type: ignore[attr-defined]
        check_counts(matrix)
        expect(len(matrix) == len(matrix[0]))


def check_optional_numbers(value: object) -> None:
    """Of every client, or nothing."""
    expect(isinstance(value, list))
    expect(all(each is None or isinstance(each, int | float) for each in value))  # type: ignore[attr-defined]


def check_optional_shares(value: object) -> None:
    """Of every client in 0..1, or nothing."""
    check_optional_numbers(value)
    expect(all(each is None or 0 <= each <= 1 for each in value))  # type: ignore[attr-defined]


def check_sizes(content: dict[str, Any]) -> None:
    """Every table of counts has a column per class."""
    names, tables = content.get("class_names"), list((content.get("confusion") or {}).values())
    tables += [content["label_table"]] if content.get("label_table") else []
    expect(len({len(table[0]) for table in tables} | ({len(names)} if names else set())) <= 1)


def expect(holds: bool) -> None:
    if not holds:
        raise ValueError("not what a summary holds")


CHECKS: dict[str, Callable[[object], None]] = {
    "final_accuracy": check_accuracies,
    "peak_test_accuracy": check_accuracies,
    "balanced_accuracy": check_accuracies,
    "confusion": check_confusion,
    "local_accuracy": check_optional_shares,
    "site_accuracy": check_optional_shares,
    "upload_bytes": check_optional_numbers,
    "sites": check_names,
    "class_names": check_names,
    "warnings": check_names,
    "label_table": check_counts,
}
"""Values of a summary by key, checked before anything uses them."""
