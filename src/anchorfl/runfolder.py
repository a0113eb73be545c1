"""The folder of a run: what is written where, and read back."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from anchorfl.config import Config, read_preset, resolve
from anchorfl.errors import UserError

if TYPE_CHECKING:
    from anchorfl.upload import Upload


INCIDENTAL = (
    "out",
    "track",
    "device",
    "data.root",
    "train.precision",
    "train.graphs",
    "train.evaluate_every",
    "partition.file",
)
"""Settings that say where and how a run went, not what was learned."""


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
        if config.general.out is None:
            return RunFolder(new_folder(Path("runs"), run_name(config)))
        path = Path(config.general.out).expanduser()
        if path.exists() and not path.is_dir():
            raise UserError(f"out={path}: is a file; name a new folder")
        if path.exists() and any(path.iterdir()):
            raise UserError(f"out={path}: holds another run already; name a new folder")
        path.mkdir(parents=True, exist_ok=True)
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
            summary = json.loads((self.path / "summary.json").read_text())
        except (OSError, ValueError):
            summary = None
        if not isinstance(summary, dict) or "status" not in summary:
            raise UserError(f"{self.path}: holds no run that ended (no valid summary.json)")
        return summary

    def read_metrics(self) -> list[dict[str, Any]]:
        try:
            return [json.loads(line) for line in self.metrics.read_text().splitlines()]
        except (OSError, ValueError):
            raise UserError(f"{self.metrics}: missing or corrupt") from None

    def write_uploads(self, uploads: Sequence[Upload]) -> dict[int, int]:
        """One file a client; returns each file's bytes."""
        (self.path / "uploads").mkdir()
        sizes = {}
        for upload in uploads:
            data = upload.to_bytes()
            self.upload_file(upload.client).write_bytes(data)
            sizes[upload.client] = len(data)
        return sizes

    def read_uploads(self, sizes: Sequence[int | None]) -> list[Upload]:
        """The uploads of all clients that sent one, whose bytes the summary knows."""
        from anchorfl.upload import Upload

        uploads = []
        for client, size in enumerate(sizes):
            file = self.upload_file(client)
            if size is not None:
                if not file.is_file() or file.stat().st_size != size:
                    raise UserError(f"{file}: missing or incomplete")
                uploads.append(Upload.from_bytes(file.read_bytes()))
        if not uploads:
            raise UserError(f"{self.path}: the run did not finish, so there is nothing to predict with")
        return uploads

    def upload_file(self, client: int) -> Path:
        return self.path / "uploads" / f"client-{client:03d}.safetensors"


def run_name(config: Config) -> str:
    return f"{config.method}-{config.data.name}-{config.partition.draw_name()}-seed{config.seed}"


def new_folder(parent: Path, name: str) -> Path:
    """Make parent/name, or the first of name-2, name-3, ... that nobody else makes meanwhile."""
    candidate, number = parent / name, 1
    while True:
        try:
            candidate.mkdir(parents=True)
            return candidate
        except FileExistsError:
            number += 1
            candidate = parent / f"{name}-{number}"
