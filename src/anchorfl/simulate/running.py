"""`anchorfl run`: an experiment in its folder, begun, resumed or restarted."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from anchorfl.config import Config
from anchorfl.data import draw_name
from anchorfl.errors import UserError
from anchorfl.events import Listener
from anchorfl.files import locked
from anchorfl.loop import MetricsWriter, last_good, record
from anchorfl.runs import Run, RunFolder, folder_name, put_aside, read_run
from anchorfl.settings import flatten, read_preset
from anchorfl.simulate.simulation import Simulation


def run_in_folder(config: Config, listeners: Sequence[Listener] = (), restart: bool = False) -> Run:
    """Prepare, run, and keep everything in the run's folder, whatever happens on the way.

    Where `out` holds the same experiment, unfinished, it is resumed from its last checkpoint; `restart`
    puts that aside and begins anew.
    """
    begun = begun_earlier(config, restart)
    if begun is not None and restart:
        with locked(begun.folder):
            put_aside(begun.folder)
        begun = None
    if begun is not None:
        config = on_the_same_terms(config, begun)
    simulation = Simulation.prepare(config)
    folder = RunFolder.create(config.general.out, run_name(config)) if begun is None else begun.files
    with locked(folder.path):
        if begun is not None and not read_run(folder.path).unfinished:
            raise UserError(f"out={folder.path}: another process has finished this run meanwhile")
        return record(folder, simulation, listeners)


def begun_earlier(config: Config, restart: bool) -> Run | None:
    """The unfinished run in the folder that `out` names, refused where it is another experiment.

    By code that has changed since, it can begin anew and not be resumed.
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
            return None  # no run that could be resumed: the folder is refused when it is made
    read_preset(folder.config)  # where it is this that cannot be read, the records stay as they are
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
        config = config.replace_train(precision=str(stored.get("train.precision", "auto")))
    return config


def run_name(config: Config) -> str:
    method = config.method.rpartition("/")[2]  # a file's name, where it is FILE.py:NAME
    return folder_name(f"{method}-{config.data.name}-{draw_name(config.partition)}-seed{config.seed}")
