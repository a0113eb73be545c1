"""The Python door: describe an experiment, run it, or open a finished run."""

from __future__ import annotations

import platform
import time
from contextlib import nullcontext, suppress
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, datetime
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any

import torch

from anchorfl import __version__
from anchorfl.config import Config, flatten, resolve
from anchorfl.costs import Cost
from anchorfl.devices import device_name
from anchorfl.evaluation import balanced_accuracy, macro_f1
from anchorfl.events import Event, Listener, MetricsWriter, RoundEnded, RunEnded, Warned
from anchorfl.federation import Federation, Outcome
from anchorfl.models import ImageFacts
from anchorfl.predictor import Predictor, build_predictor
from anchorfl.records import read_run
from anchorfl.report.page import write_page
from anchorfl.report.track import require, tracker
from anchorfl.runfolder import RunFolder


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
    """A finished run, in memory or read from its folder."""

    folder: Path
    config: Config
    summary: dict[str, Any]
    metrics: list[dict[str, Any]] = field(repr=False)

    @property
    def accuracy(self) -> dict[str, float]:
        """Final test accuracy by fusion, in 0..1."""
        accuracy: dict[str, float] = self.summary["final_accuracy"]
        return accuracy

    @property
    def lambdas(self) -> dict[int, list[float | None]]:
        """Effective lambda by client, round by round; None where nothing is aligned."""
        table: dict[int, list[float | None]] = {}
        for record in self.metrics:
            if record["event"] == "client":
                table.setdefault(record["client"], []).append(record["lambda_effective"])
        return table

    @cached_property
    def predictor(self) -> Predictor:
        """The primary fusion as a torch module: floats in 0..1 in, scores out."""
        images = ImageFacts.from_json(self.summary["images"])
        uploads = RunFolder(self.folder).read_uploads(self.summary["upload_bytes"])
        primary = next(iter(self.config.fusion))
        temperature = (self.summary.get("temperature") or {}).get(primary)
        names = self.summary["class_names"]
        return build_predictor(self.config, images, uploads, names, temperature)


def load_run(folder: str | PathLike[str]) -> Result:
    """The result of a run that finished earlier."""
    place = RunFolder(Path(folder))
    summary = place.read_summary()
    return Result(place.path, place.read_config(), summary, place.read_metrics())


def run_config(config: Config, listeners: tuple[Listener, ...] = ()) -> Result:
    """Prepare, run, and keep everything in the run's folder, whatever happens on the way."""
    if config.general.track is not None:
        require(config.general.track)
    federation = Federation.prepare(config)
    folder = RunFolder.create(config)
    folder.write_config(federation.config.replace_general(out=str(folder.path)))
    labels = federation.dataset.train.labels
    federation.partition.save(folder.partition, federation.dataset.name, labels)
    ledger = Ledger(federation)
    federation.listeners = [MetricsWriter(folder.metrics), ledger, *listeners]
    if config.general.track is not None:
        settings = flatten(federation.config.to_dict())
        federation.listeners.append(tracker(config.general.track, folder.path, settings))
    status, outcome = "failed", None
    try:
        outcome = federation.run(str(folder.path))
        status = "stopped" if federation.stopping else "finished"
    except KeyboardInterrupt:
        status = "stopped"
        raise
    finally:
        sizes = folder.write_uploads(outcome.uploads) if outcome else {}
        summary = ledger.summary(status, outcome, sizes)
        folder.write_summary(summary)
        federation.emit(RunEnded(summary))
        with nullcontext() if outcome else suppress(Exception):  # a failure is told, not the page's
            write_page(read_run(folder.path))
    return load_run(folder.path)


def exchange_bytes(outcome: Outcome | None) -> list[int] | None:
    """What the second exchange sends each client that uploaded: the others' encoders."""
    if outcome is None:
        return None
    sizes = [sum(value.nbytes for value in upload.weights.values()) for upload in outcome.uploads]
    return [sum(sizes) - own for own in sizes]


def cost_entries(outcome: Outcome | None) -> dict[str, dict[str, float] | None]:
    """By fusion: bytes a client sends for it, the server's seconds, what a prediction takes."""
    costs = {name: asdict(cost) for name, cost in outcome.costs.items()} if outcome else {}
    return {
        item.name: {name: cost[item.name] for name, cost in costs.items()} or None
        for item in fields(Cost)
    }


def environment(device: torch.device) -> dict[str, str]:
    """What a run was made with."""
    return {
        "anchorfl": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "device": device_name(device),
        "platform": platform.platform(),
        "ended": datetime.now(UTC).isoformat(timespec="seconds"),
    }


class Ledger:
    """Listens, and adds up what summary.json says."""

    def __init__(self, federation: Federation) -> None:
        self.federation = federation
        self.started = time.perf_counter()
        self.rounds: list[RoundEnded] = []
        self.warnings: list[str] = []

    def __call__(self, event: Event) -> None:
        if isinstance(event, RoundEnded):
            self.rounds.append(event)
        elif isinstance(event, Warned):
            self.warnings.append(event.message)

    def summary(self, status: str, outcome: Outcome | None, sizes: dict[int, int]) -> dict[str, Any]:
        """What cannot be known of a run that did not finish is null."""
        config, dataset = self.federation.config, self.federation.dataset
        seen = [event for event in self.rounds if event.accuracy is not None]
        last = seen[-1] if seen else None
        fused = outcome.evaluation.confusions() if outcome else {}
        train_seconds = sum(event.train_seconds for event in self.rounds)
        trained = sum(event.samples for event in self.rounds)
        partition = self.federation.partition
        table = partition.label_table(dataset.train.labels, dataset.facts.classes)
        return {
            "method": config.method,
            "dataset": dataset.name,
            "seed": config.seed,
            "status": status,
            "rounds": len(self.rounds),
            "final_accuracy": last.accuracy if last else None,
            "peak_test_accuracy": {
                name: max(event.accuracy[name] for event in seen if event.accuracy) for name in fused
            },
            "validation_accuracy": last.validation_accuracy if last else None,
            "balanced_accuracy": {name: balanced_accuracy(fused[name]) for name in fused} or None,
            "macro_f1": {name: macro_f1(fused[name]) for name in fused} or None,
            "local_accuracy": last.local_accuracy if last else None,
            **self._calibration(outcome),
            "confusion": {name: fused[name].long().tolist() for name in fused} or None,
            "seconds": time.perf_counter() - self.started,
            "train_seconds": train_seconds,
            "samples_per_second": trained / train_seconds if trained else None,
            "task_bytes": len(self.federation.task.to_bytes()),
            "upload_bytes": [sizes.get(number) for number in range(len(partition.clients))],
            "exchange_bytes": exchange_bytes(outcome) if config.exchanges == 2 else None,
            **cost_entries(outcome),
            "partition_hash": partition.hash,
            "label_table": table.tolist(),
            "images": asdict(dataset.facts),
            "class_names": dataset.class_names,
            "environment": environment(self.federation.device),
            "warnings": self.warnings,
        }

    def _calibration(self, outcome: Outcome | None) -> dict[str, dict[str, float] | None]:
        """The temperatures that held-out data want, or each fusion's own, and how far off they are."""
        if outcome is None:
            return {"temperature": None, "calibration_error": None}
        fusions = self.federation.config.fusion
        temperatures = {name: fusion.score_temperature for name, fusion in fusions.items()}
        if outcome.validation is not None:
            temperatures = outcome.validation.temperatures()
        errors = outcome.evaluation.calibration_errors(temperatures)
        return {"temperature": temperatures, "calibration_error": errors}
