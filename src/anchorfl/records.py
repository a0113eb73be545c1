"""A run as its folder tells it: settings, records, summary. Read without torch."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from anchorfl.balance import BALANCES, Balance
from anchorfl.config import TrainOptions, read_preset
from anchorfl.errors import UserError
from anchorfl.methods import METHODS
from anchorfl.options import build

Record = dict[str, Any]


@dataclass(frozen=True)
class Run:
    """Finished, stopped or failed; `summary` is None for one that is still going or was killed."""

    folder: Path
    settings: Mapping[str, object]
    summary: Mapping[str, Any] | None
    metrics: list[Record] = field(repr=False)

    @property
    def method(self) -> str:
        return str(self.settings["method"])

    @cached_property
    def clients(self) -> dict[int, list[Record]]:
        """Client records by client, in the order of rounds."""
        found: dict[int, list[Record]] = {}
        for record in self.metrics:
            if record["event"] == "client":
                found.setdefault(record["client"], []).append(record)
        return dict(sorted(found.items()))

    @cached_property
    def evaluations(self) -> list[Record]:
        rounds = (record for record in self.metrics if record["event"] == "round")
        return [record for record in rounds if record["accuracy"] is not None]

    @cached_property
    def largest_lambda(self) -> float | None:
        """The largest raw lambda of any client at the end of any round; None where there is none."""
        values = [record["lambda_raw"] for own in self.clients.values() for record in own]
        return max((value for value in values if value is not None), default=None)

    @cached_property
    def warnings(self) -> list[Record]:
        return [record for record in self.metrics if record["event"] == "warning"]

    @cached_property
    def balance(self) -> Balance:
        return build(BALANCES.get(METHODS.get(self.method).balance), self.section("align"), "align")

    @cached_property
    def train(self) -> TrainOptions:
        return build(TrainOptions, self.section("train"), "train")

    def section(self, name: str) -> dict[str, object]:
        prefix = f"{name}."
        chosen = {key: value for key, value in self.settings.items() if key.startswith(prefix)}
        return {key.removeprefix(prefix): value for key, value in chosen.items()}

    def class_counts(self, client: int) -> list[int]:
        counts: list[int] = self.summary["label_table"][client] if self.summary else []
        return counts


def read_run(folder: str | Path) -> Run:
    """The run in a folder; its files may be compressed (`metrics.jsonl.gz`)."""
    place = Path(folder)
    if not (place / "config.yaml").is_file():
        raise UserError(f"{place}: is not a run's folder (no config.yaml)")
    try:
        metrics = [json.loads(line) for line in (text_of(place / "metrics.jsonl") or "").splitlines()]
        summary = json.loads(text_of(place / "summary.json") or "null")
    except ValueError:
        raise UserError(f"{place}: metrics.jsonl or summary.json is corrupt") from None
    return Run(place, read_preset(place / "config.yaml"), summary, metrics)


def text_of(path: Path) -> str | None:
    """The text of a file or of its compressed form; None where there is neither."""
    packed = path.with_name(path.name + ".gz")
    if path.is_file():
        return path.read_text()
    return gzip.decompress(packed.read_bytes()).decode() if packed.is_file() else None
