"""A run's whole state at the end of a round, on disk, so that one that was cut off goes on exactly."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from torch import Tensor

from anchorfl.errors import UserError
from anchorfl.files import write_whole
from anchorfl.messages import Task, pack, unpack
from anchorfl.runs import Record, RunFolder
from anchorfl.tensors import Tensors, prefixed, section

KEPT = 2
"""Checkpoints of a run: the newest, and the one before, should the newest be damaged."""


@dataclass(frozen=True)
class Checkpoint:
    """`position` rounds are done. `target` and `weights` are those of the task of `task_round`.

    The first task's weights are no part of it: they follow from the experiment. `written` is how much
    of metrics.jsonl those rounds are, `records` what stands there.
    """

    position: int
    partition: str
    task_round: int
    weights: Tensors
    target: Tensor | None
    sites: dict[str, Tensors]
    written: int = 0
    records: tuple[Record, ...] = ()

    @staticmethod
    def take(position: int, partition: str, task: Task, sites: dict[str, Tensors]) -> Checkpoint:
        """While `task` is going; what a later round changes in place is copied."""
        weights = {name: copied(value) for name, value in task.weights.items()} if task.round else {}
        target = None if task.target is None else copied(task.target)
        return Checkpoint(position, partition, task.round, weights, target, sites)

    def task_now(self, first: Task) -> Task:
        """The task that was going when this was taken."""
        if self.task_round:
            return first.later(self.task_round, self.weights, self.target)
        return replace(first, target=self.target)

    def to_bytes(self, metrics: tuple[int, str]) -> bytes:
        tensors = prefixed("weights", self.weights)
        if self.target is not None:
            tensors["target"] = self.target
        for number, state in enumerate(self.sites.values()):
            tensors |= prefixed(f"site/{number}", state)
        content = {
            "position": self.position,
            "partition": self.partition,
            "task_round": self.task_round,
            "sites": list(self.sites),
            "metrics": list(metrics),
        }
        return pack("checkpoint", content, tensors)


def copied(value: Tensor) -> Tensor:
    """In memory of its own: several names of one tensor cannot be written, nor what moves meanwhile."""
    return value.detach().to("cpu", copy=True).contiguous()


class Checkpoints:
    """Writes them beside the round that follows, whole or not at all, and keeps the last two."""

    def __init__(self, folder: RunFolder, written: Callable[[], tuple[int, str]]) -> None:
        self.folder, self.written = folder, written
        self.writer = ThreadPoolExecutor(1, thread_name_prefix="checkpoint")
        self.writing: Future[None] | None = None
        folder.checkpoints.mkdir(exist_ok=True)

    def save(self, checkpoint: Checkpoint) -> None:
        """Set the writing going, once the one before has ended."""
        self.wait()
        self.writing = self.writer.submit(self._write, checkpoint, self.written())

    def _write(self, checkpoint: Checkpoint, metrics: tuple[int, str]) -> None:
        write_whole(self.folder.checkpoint(checkpoint.position), checkpoint.to_bytes(metrics))
        for old in newest_first(self.folder)[KEPT:]:
            old.unlink(missing_ok=True)

    def wait(self) -> None:
        if self.writing is not None:
            self.writing.result()

    def close(self) -> None:
        """Wait for what is being written; what went wrong with it no longer matters."""
        self.writer.shutdown()

    def remove(self) -> None:
        """The run is complete: nothing will go on from here."""
        self.close()
        going = self.folder.path / ".done"
        self.folder.checkpoints.replace(going)
        shutil.rmtree(going)


def newest_first(folder: RunFolder) -> list[Path]:
    return sorted(folder.checkpoints.glob("round-*.safetensors"), reverse=True)


def last_good(folder: RunFolder) -> tuple[Checkpoint | None, list[str]]:
    """The newest that is whole and fits the metrics beside it; why others are passed over."""
    troubles: list[str] = []
    for file in newest_first(folder):
        try:
            return read_checkpoint(file, folder.metrics), troubles
        except UserError as error:
            troubles.append(f"{file.name}: {error}")
    return None, troubles


def remove_unusable(folder: RunFolder, begun: Checkpoint | None) -> None:
    """Those that were passed over: they would be kept in place of new ones."""
    for file in newest_first(folder):
        if begun is None or file > folder.checkpoint(begun.position):
            file.unlink()


def read_checkpoint(file: Path, metrics: Path) -> Checkpoint:
    """UserError where its bytes are not those that were written, or the metrics' are not."""
    content, tensors = unpack("checkpoint", file.read_bytes())
    try:
        size, digest = int(content["metrics"][0]), str(content["metrics"][1])
        lines = metrics.read_bytes()[:size] if metrics.is_file() else b""
        if hashlib.sha256(lines).hexdigest() != digest:
            raise UserError(f"{metrics.name} beside it is not the one that it was taken with")
        return Checkpoint(
            int(content["position"]),
            str(content["partition"]),
            int(content["task_round"]),
            section(tensors, "weights"),
            tensors.get("target"),
            {
                str(site): section(tensors, f"site/{number}")
                for number, site in enumerate(content["sites"])
            },
            size,
            tuple(json.loads(line) for line in lines.splitlines()),
        )
    except (KeyError, IndexError, TypeError, ValueError):
        raise UserError("this checkpoint is incomplete") from None
