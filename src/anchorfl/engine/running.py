"""A run in its folder: begun or gone on with, and kept whatever happens on the way."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import torch

from anchorfl.config import Config
from anchorfl.data import draw_name
from anchorfl.engine.checkpoints import Checkpoints, last_good, remove_unusable
from anchorfl.engine.events import Listener, MetricsWriter, RunEnded, Warned
from anchorfl.engine.federation import Federation
from anchorfl.engine.ledger import Ledger
from anchorfl.engine.stored_uploads import keep_start, messages_of, write_uploads
from anchorfl.errors import UserError
from anchorfl.files import locked, remove_leftovers
from anchorfl.registry import LISTENERS, TRACKERS
from anchorfl.runs import Run, RunFolder, folder_name, holds_anything, put_aside, read_run
from anchorfl.settings import flatten, own_code


def run_in_folder(config: Config, listeners: tuple[Listener, ...] = (), restart: bool = False) -> Run:
    """Prepare, run, and keep everything in the run's folder, whatever happens on the way.

    Where `out` holds the same experiment, unfinished, it goes on from its last checkpoint; `restart`
    puts that aside and begins anew.
    """
    begun = begun_earlier(config, restart)
    if begun is not None and restart:
        with locked(begun.folder):
            put_aside(begun.folder)
        begun = None
    if begun is not None:
        config = on_the_same_terms(config, begun)
    federation = Federation.prepare(config)
    out, name = config.general.out, run_name(config)
    folder = RunFolder.create(out, name) if begun is None else begun.files
    with locked(folder.path):
        if begun is not None and not read_run(folder.path).unfinished:
            raise UserError(f"out={folder.path}: another process has finished this run meanwhile")
        return train_in(folder, federation, listeners)


def begun_earlier(config: Config, restart: bool) -> Run | None:
    """The unfinished run in the folder that `out` names, refused where it is another experiment.

    By code that has changed since, it can begin anew and not go on.
    """
    if config.general.out is None:
        return None
    folder = RunFolder(Path(config.general.out).expanduser())
    try:
        if not folder.config.is_file():
            return None
    except OSError:
        return None  # no possible name: that is said when the folder is made
    run = read_begun(folder)
    if run is None:
        return None
    other = run.unlike(flatten(config.to_dict()))
    if other is not None:
        raise UserError(f"out={folder.path}: holds a run with {other}; name a new folder")
    changed = run.changed_code
    if changed and not restart:
        raise UserError(
            f"out={folder.path}: holds a run by {changed[0]} as it was before a change; add --restart"
            " to put that aside, or name a new folder"
        )
    return run if run.unfinished or changed else None


def read_begun(folder: RunFolder) -> Run | None:
    """A run whose records may be damaged behind its last good checkpoint: these are dropped."""
    try:
        return read_run(folder.path)
    except UserError:
        if not folder.checkpoints.is_dir():
            return None  # no run that could go on: the folder is refused when it is made
    with locked(folder.path):
        good, _ = last_good(folder)
        MetricsWriter(folder.metrics, good.written if good else 0).close()
    return read_run(folder.path)


def on_the_same_terms(config: Config, begun: Run) -> Config:
    """What a machine chooses is chosen as it was then, unless it is set now."""
    stored, general, train = begun.settings, config.general, config.train
    if general.device == "auto":
        config = config.replace_general(device=stored.get("device", "auto"))
    if general.threads is None:
        config = config.replace_general(threads=stored.get("threads"))
    if train.precision == "auto":
        precision = str(stored.get("train.precision", "auto"))
        config = replace(config, train=replace(train, precision=precision))
    return config


def train_in(folder: RunFolder, federation: Federation, listeners: tuple[Listener, ...]) -> Run:
    """From the start, or from the folder's last good checkpoint."""
    config = federation.config.replace_general(out=str(folder.path))
    begun, troubles = last_good(folder)
    if begun is not None:
        federation.go_on_from(begun)
    own_listeners = named_listeners(folder, config)
    for trouble in troubles:
        for listener in listeners:
            listener(Warned("damaged-checkpoint", f"passed over {trouble}"))
    with saying_what_to_change(folder.path):
        for place in (folder.path, folder.checkpoints, folder.upload(0).parent):
            remove_leftovers(place)
        remove_unusable(folder, begun)
        folder.summary.unlink(missing_ok=True)
        keep_start(folder, federation.task.start)
        folder.write_config(config)
        labels = federation.dataset.train.labels
        federation.partition.save(folder.partition, federation.dataset.name, labels)
        writer = MetricsWriter(folder.metrics, begun.written if begun else 0)
        checkpoints = Checkpoints(folder, writer.written)
    ledger = Ledger(federation)
    federation.checkpoints = checkpoints
    federation.listeners = [writer, ledger, *listeners, *own_listeners]
    try:
        with saying_what_to_change(folder.path):
            outcome = federation.run(str(folder.path))
            writer.close()
            data = messages_of(outcome.uploads)
            sizes = {client: len(content) for client, content in data.items()}
            status = "stopped" if federation.stopping else "finished"
            folder.write_summary(ledger.summary(status, outcome, sizes))
            write_uploads(folder, outcome.uploads, data)
            run = read_run(folder.path, trust=True)
            federation.emit(RunEnded(run))
            checkpoints.remove()
    except BaseException as error:
        checkpoints.close()
        with suppress(OSError):
            leave(folder, federation, ledger, writer, isinstance(error, KeyboardInterrupt))
        if isinstance(error, KeyboardInterrupt):
            trust = " --trust" if own_code(flatten(config.to_dict())) else ""
            raise KeyboardInterrupt(f"{folder.path}{trust}") from None
        raise
    return run


def leave(
    folder: RunFolder, federation: Federation, ledger: Ledger, writer: MetricsWriter, stopped: bool
) -> None:
    """Of a run that was cut off, what can be read and gone on with."""
    writer.close()
    if not folder.summary.is_file():
        folder.write_summary(ledger.summary("stopped" if stopped else "failed", None, {}))
    federation.emit(RunEnded(read_run(folder.path, trust=True)))


@contextmanager
def saying_what_to_change(folder: Path) -> Iterator[None]:
    """A full disk, a folder that vanished, or too little memory, in one line."""
    then = f"anchorfl run {folder} goes on from its last checkpoint"
    try:
        yield
    except OSError as error:
        raise UserError(f"{error.filename or folder}: {error.strerror or error}; {then}") from error
    except (MemoryError, RuntimeError) as error:
        known = isinstance(error, MemoryError | torch.OutOfMemoryError)
        if not known and "can't allocate memory" not in str(error):
            raise
        raise UserError(f"memory is not enough; lower train.batch_size or free some; {then}") from error


def named_listeners(folder: RunFolder, config: Config) -> list[Listener]:
    """Those of every run, the page among them, and the tracker that `track` names.

    Where one cannot be had, the folder that was made for the run goes again.
    """
    factories = [LISTENERS.get(name) for name in LISTENERS.names()]
    if config.general.track is not None:
        factories.append(TRACKERS.get(config.general.track))
    try:
        settings = flatten(config.to_dict())
        return [make(folder.path, settings) for make in factories]
    except BaseException:
        if not holds_anything(folder.path):
            shutil.rmtree(folder.path)
        raise


def run_name(config: Config) -> str:
    method = config.method.rpartition("/")[2]  # a file's name, where it is FILE.py:NAME
    draw = draw_name(config.partition)
    return folder_name(f"{method}-{config.data.name}-{draw}-seed{config.seed}")
