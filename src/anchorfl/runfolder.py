"""The folder of a run: what is written where, and read back."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from anchorfl.config import Config, read_preset, resolve
from anchorfl.errors import UserError
from anchorfl.upload import Upload


@dataclass(frozen=True)
class RunFolder:
    """config.yaml, partition.json, metrics.jsonl, summary.json, uploads/, figures/."""

    path: Path

    @property
    def metrics(self) -> Path:
        return self.path / "metrics.jsonl"

    @property
    def partition(self) -> Path:
        return self.path / "partition.json"

    @property
    def figures(self) -> Path:
        return self.path / "figures"

    @staticmethod
    def create(config: Config) -> RunFolder:
        """A new folder; one that holds anything already is refused, not overwritten."""
        if config.general.out is not None:
            path = Path(config.general.out).expanduser()
            if path.exists() and (not path.is_dir() or any(path.iterdir())):
                raise UserError(f"out={path}: holds another run already; choose a new folder")
        else:
            path = free_path(Path("runs"), run_name(config))
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(f"out={path}: {error.strerror}") from None
        return RunFolder(path)

    def write_config(self, config: Config) -> None:
        text = yaml.safe_dump(config.to_dict(), sort_keys=False)
        (self.path / "config.yaml").write_text(text)

    def read_config(self) -> Config:
        settings = read_preset(self.path / "config.yaml")
        return resolve(str(settings.pop("method")), settings)

    def write_summary(self, summary: dict[str, Any]) -> None:
        text = json.dumps(summary, indent=2, allow_nan=False)
        (self.path / "summary.json").write_text(text + "\n")

    def read_summary(self) -> dict[str, Any]:
        try:
            summary: dict[str, Any] = json.loads((self.path / "summary.json").read_text())
        except (OSError, ValueError):
            raise UserError(f"{self.path}: holds no finished run (summary.json)") from None
        return summary

    def read_metrics(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.metrics.read_text().splitlines()]

    def write_uploads(self, uploads: Sequence[Upload]) -> dict[int, int]:
        """One file a client; returns each file's bytes."""
        folder = self.path / "uploads"
        folder.mkdir()
        sizes = {}
        for upload in uploads:
            data = upload.to_bytes()
            (folder / f"client-{upload.client:03d}.safetensors").write_bytes(data)
            sizes[upload.client] = len(data)
        return sizes

    def read_uploads(self) -> list[Upload]:
        files = sorted((self.path / "uploads").glob("client-*.safetensors"))
        return [Upload.from_bytes(file.read_bytes()) for file in files]


def run_name(config: Config) -> str:
    partition = config.partition
    draw = partition.kind
    if "dirichlet" in draw:
        draw += f"-{partition.alpha:g}"
    return f"{config.method}-{config.data.name}-{draw}-seed{config.seed}"


def free_path(parent: Path, name: str) -> Path:
    """parent/name, or the first of name-2, name-3, ... that is not taken."""
    candidate, number = parent / name, 1
    while candidate.exists():
        number += 1
        candidate = parent / f"{name}-{number}"
    return candidate
