"""The Python door: describe an experiment, run it, or open a finished run."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any

from anchorfl.config import CONFIG_FORMAT, Config
from anchorfl.data import draw_name
from anchorfl.engine import Federation, Ledger, Listener, MetricsWriter, RunEnded, packed, write_uploads
from anchorfl.predictor import Predictor, predictor_of
from anchorfl.registry import LISTENERS, TRACKERS
from anchorfl.runs import Record, Run, RunFolder, Summary, read_run
from anchorfl.settings import flatten, resolve


class Experiment:
    """One experiment, checked when it is made.

    Experiment(method="v4", data={"name": "digits"}, train={"rounds": 20}, seed=1).run()
    """

    def __init__(self, method: str = "v4", **settings: Any) -> None:
        self.config: Config = resolve(method, flatten(settings))

    def run(self, *listeners: Listener) -> Result:
        """Run to the end; every event also goes to the listeners."""
        return run_config(self.config, listeners)


@dataclass(frozen=True)
class Result:
    """A run that ended, as its folder holds it."""

    run: Run

    @property
    def folder(self) -> Path:
        return self.run.folder

    @property
    def config(self) -> Config:
        return self.run.config

    @property
    def summary(self) -> Summary:
        return self.run.summary

    @property
    def metrics(self) -> list[Record]:
        return self.run.metrics

    @property
    def accuracy(self) -> dict[str, float]:
        """Final test accuracy by fusion, in 0..1."""
        return self.summary.final_accuracy or {}

    @property
    def lambdas(self) -> dict[int, list[float | None]]:
        """Effective lambda by client, round by round; None where nothing is aligned."""
        return {
            client: [record["lambda_effective"] for record in records]
            for client, records in self.run.clients.items()
        }

    @cached_property
    def predictor(self) -> Predictor:
        """The primary fusion as a torch module: floats in 0..1 in, scores out."""
        return predictor_of(self.run)


def load_run(folder: str | PathLike[str], trust: bool = False) -> Result:
    """The result of a run that ended earlier; `trust` lets its predictor import code that it names."""
    return Result(read_run(folder, trust).require_end())


def run_config(config: Config, listeners: tuple[Listener, ...] = ()) -> Result:
    """Prepare, run, and keep everything in the run's folder, whatever happens on the way."""
    federation = Federation.prepare(config)
    config = federation.config
    folder = RunFolder.create(config.general.out, run_name(config))
    config = config.replace_general(out=str(folder.path))
    own_listeners = named_listeners(folder, config)
    folder.write_config({"format": CONFIG_FORMAT, **config.to_dict()})
    labels = federation.dataset.train.labels
    federation.partition.save(folder.partition, federation.dataset.name, labels)
    ledger = Ledger(federation)
    writer = MetricsWriter(folder.metrics)
    federation.listeners = [writer, ledger, *listeners, *own_listeners]
    status, outcome = "failed", None
    try:
        outcome = federation.run(str(folder.path))
        status = "stopped" if federation.stopping else "finished"
    except KeyboardInterrupt:
        status = "stopped"
        raise
    finally:
        data = packed(outcome.uploads) if outcome else {}
        sizes = {client: len(content) for client, content in data.items()}
        writer.close()
        folder.write_summary(ledger.summary(status, outcome, sizes))
        if outcome:
            write_uploads(folder, outcome.uploads, data)
        run = read_run(folder.path, trust=True)
        federation.emit(RunEnded(run))
    return Result(run)


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
        if not any(folder.path.iterdir()):
            folder.path.rmdir()
        raise


def run_name(config: Config) -> str:
    return f"{config.method}-{config.data.name}-{draw_name(config.partition)}-seed{config.seed}"
