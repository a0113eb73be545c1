"""The folder of a run: what lies where."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path

import yaml

from anchorfl.config import CONFIG_FORMAT, Config
from anchorfl.errors import UserError
from anchorfl.files import write_whole
from anchorfl.runs.summary import Summary
from anchorfl.settings import flatten, own_code

INCIDENTAL = (
    "out",
    "label",
    "track",
    "model.save",
    "device",
    "threads",
    "data.root",
    "train.precision",
    "train.graphs",
    "train.evaluate_every",
    "train.evaluate_at",
    "train.evaluate_inside",
    "train.checkpoint_every",
    "partition.file",
    "server.timeout",
    "flower.cpus",
    "flower.gpus",
)
"""Settings of where and how a run went, not of what was learned."""


class RunFolder:
    """The paths of all that a run leaves."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config = path / "config.yaml"
        self.metrics = path / "metrics.jsonl"
        self.summary = path / "summary.json"
        self.partition = path / "partition.json"
        self.page = path / "report.html"
        self.figures = path / "figures"
        self.model = path / "model.safetensors"
        """The fused model."""
        self.checkpoints = path / "checkpoints"
        """Exists as long as the run can go on from one."""
        self.uploads = path / "uploads"
        self.frozen = self.uploads / "frozen.safetensors"
        """The part of the network that training left alone and no upload contains, if any."""
        self.start = self.uploads / "start.safetensors"
        """What all sites started from and describe images by, if the run had one."""

    def checkpoint(self, position: int) -> Path:
        return self.checkpoints / f"round-{position:06d}.safetensors"

    def upload(self, client: int) -> Path:
        return self.uploads / f"client-{client:03d}.safetensors"

    @staticmethod
    def create(out: str | None, name: str) -> RunFolder:
        """A new folder; one that holds anything already is refused, not overwritten."""
        if out is None:
            return RunFolder(new_folder(Path("runs"), name))
        path = Path(out).expanduser()
        try:
            refuse_used(path)
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(f"out={path}: cannot be made ({error.strerror})") from None
        return RunFolder(path)

    def write_config(self, config: Config) -> None:
        """Every setting, and beside them the format and what code of the user's own it names."""
        settings = config.to_dict()
        code = own_code(flatten(settings))
        content = {"format": CONFIG_FORMAT, **({"code": code} if code else {}), **settings}
        write_whole(self.config, yaml.safe_dump(content, sort_keys=False))

    def write_summary(self, summary: Summary) -> None:
        write_whole(self.summary, summary.to_json())

    def read_uploads(self, sizes: list[int | None]) -> Iterator[bytes]:
        """The uploads of all clients that sent one, whose sizes the summary holds."""
        for client, size in enumerate(sizes):
            file = self.upload(client)
            if size is not None:
                if not file.is_file() or file.stat().st_size != size:
                    raise UserError(f"{file}: missing or incomplete")
                yield file.read_bytes()


def refuse_used(path: Path) -> None:
    """UserError where a new folder cannot be made."""
    if path.is_file():
        raise UserError(f"out={path}: is a file; name a new folder")
    if path.exists() and holds_anything(path):
        raise UserError(f"out={path}: holds another run already; name a new folder")


def holds_anything(folder: Path) -> bool:
    """Other than hidden files, such as a lock."""
    return any(not entry.name.startswith(".") for entry in folder.iterdir())


def put_aside(folder: Path) -> Path:
    """Rename it NAME.unfinished, or the first of NAME.unfinished-2, ... that is free."""
    return folder.replace(new_folder(folder.parent, f"{folder.name}.unfinished"))


def put_away(folder: Path) -> Path:
    """Into `.earlier` beside it, where no `runs/*` finds it."""
    return folder.replace(new_folder(folder.parent / ".earlier", folder.name))


def folder_name(words: str) -> str:
    """Without the characters that separate folders, here or on another system."""
    return words.translate(dict.fromkeys(map(ord, "/\\:"), "_"))


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


def text_of(path: Path) -> str | None:
    """The text of a file or of its compressed form (`NAME.gz`); None where there is neither."""
    packed = path.with_name(path.name + ".gz")
    if path.is_file():
        return path.read_text()
    return gzip.decompress(packed.read_bytes()).decode() if packed.is_file() else None
