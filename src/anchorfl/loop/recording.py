"""A run in its folder: begun or resumed, and kept whatever happens on the way."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

import torch

from anchorfl.errors import UserError
from anchorfl.events import (
    Event,
    Listener,
    RoundEnded,
    RunEnded,
    Warned,
    Written,
    as_record,
)
from anchorfl.files import remove_leftovers
from anchorfl.loop.checkpoints import Checkpoints, last_good, remove_unusable
from anchorfl.loop.ledger import Ledger
from anchorfl.loop.rounds import Rounds
from anchorfl.loop.stored import keep_start, named_listeners
from anchorfl.runs import Run, RunFolder, read_run
from anchorfl.settings import flatten, own_code


class MetricsWriter:
    """Appends to metrics.jsonl; a round's lines reach the disk together, when it is complete.

    Of a round that a run did not finish only the warnings are kept. `keep` bytes of what stands there
    already are gone on from.
    """

    def __init__(self, path: Path, keep: int = 0) -> None:
        self._file: BinaryIO = path.open("r+b" if path.exists() else "w+b")
        self._file.truncate(keep)
        self._digest = hashlib.sha256(self._file.read())
        self._waiting: list[Written] = []

    def __call__(self, event: Event) -> None:
        if isinstance(event, Written):
            self._waiting.append(event)
        if isinstance(event, RoundEnded):
            self._write()

    def written(self) -> tuple[int, str]:
        """How many bytes stand on the disk, and their SHA-256."""
        os.fsync(self._file.fileno())
        return self._file.tell(), self._digest.hexdigest()

    def close(self) -> None:
        if self._file.closed:
            return
        self._waiting = [each for each in self._waiting if isinstance(each, Warned)]
        self._write()
        self._file.close()

    def _write(self) -> None:
        for event in self._waiting:
            line = json.dumps(as_record(event), allow_nan=False).encode() + b"\n"
            self._file.write(line)
            self._digest.update(line)
        self._file.flush()
        self._waiting.clear()


def record(folder: RunFolder, rounds: Rounds, listeners: Sequence[Listener]) -> Run:
    """Run all rounds, or those behind the folder's last good checkpoint, and write what comes of it."""
    config = rounds.config.replace_general(out=str(folder.path))
    begun, troubles = last_good(folder)
    if begun is not None:
        rounds.go_on_from(begun)
    named = named_listeners(folder, config)
    for trouble in troubles:
        for listener in listeners:
            listener(Warned("damaged-checkpoint", f"passed over {trouble}"))
    with saying_what_to_change(folder.path):
        for place in (folder.path, folder.checkpoints, folder.uploads):
            remove_leftovers(place)
        remove_unusable(folder, begun)
        folder.summary.unlink(missing_ok=True)
        keep_start(folder, rounds.task.start)
        folder.write_config(config)
        rounds.partition.save(folder.partition, rounds.dataset.name, rounds.dataset.train.labels)
        writer = MetricsWriter(folder.metrics, begun.written if begun else 0)
        checkpoints = Checkpoints(folder, writer.written)
    ledger = Ledger(rounds)
    rounds.checkpoints = checkpoints
    rounds.listeners = [writer, ledger, *listeners, *named]
    try:
        with saying_what_to_change(folder.path):
            outcome = rounds.run(str(folder.path))
            writer.close()
            checkpoints.wait()
            found = rounds.finish(folder, outcome)
            status = "stopped" if rounds.stopping else "finished"
            folder.write_summary(ledger.summary(status, outcome, found))
            rounds.emit(RunEnded(folder.path, status))
            checkpoints.remove()
    except BaseException as error:
        checkpoints.close()
        status = "stopped" if isinstance(error, KeyboardInterrupt) else "failed"
        with suppress(OSError):
            writer.close()
            if not folder.summary.is_file():
                folder.write_summary(ledger.summary(status))
            rounds.emit(RunEnded(folder.path, status))
        if isinstance(error, KeyboardInterrupt):
            trust = " --trust" if own_code(flatten(config.to_dict())) else ""
            raise KeyboardInterrupt(f"{folder.path}{trust}") from None
        raise
    return read_run(folder.path, trust=True)


@contextmanager
def saying_what_to_change(folder: Path) -> Iterator[None]:
    """A full disk, a folder that vanished, or too little memory, in one line."""
    then = f"anchorfl run {folder} resumes from its last checkpoint"
    try:
        yield
    except OSError as error:
        raise UserError(f"{error.filename or folder}: {error.strerror or error}; {then}") from error
    except (MemoryError, RuntimeError) as error:
        known = isinstance(error, MemoryError | torch.OutOfMemoryError)
        if not known and "can't allocate memory" not in str(error):
            raise
        raise UserError(f"memory is not enough; lower train.batch_size or free some; {then}") from error
