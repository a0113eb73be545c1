"""Listeners that send a run's numbers to a tracker, under the names that metrics.jsonl uses."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from anchorfl.errors import UserError
from anchorfl.events import TRACKERS, ClientRound, Event, RoundEnded, RunEnded, as_record


def scalars(event: ClientRound | RoundEnded) -> dict[str, float]:
    """`client/0/lambda_raw`, `accuracy/feature-mean`, ...: every number of an event."""
    record = as_record(event)
    prefix = f"client/{event.client}/" if isinstance(event, ClientRound) else ""
    found = {}
    for key, value in record.items():
        if isinstance(value, dict):
            found.update({f"{key}/{name}": float(item) for name, item in value.items()})
        elif isinstance(value, int | float) and key not in ("round", "client"):
            found[f"{prefix}{key}"] = float(value)
    return found


def library(name: str, module: str) -> Any:
    """The tracker's own module, or a line on how to get it."""
    try:
        return import_module(module)
    except ImportError:
        raise UserError(f"track={name} needs the extra: pip install 'anchorfl[track]'") from None


@TRACKERS.register("tensorboard")
class TensorBoard:
    """Event files in the run's folder, under tensorboard/."""

    def __init__(self, folder: Path, settings: Mapping[str, object]) -> None:
        module = library("tensorboard", "torch.utils.tensorboard")
        self.writer = module.SummaryWriter(str(folder / "tensorboard"))

    def __call__(self, event: Event) -> None:
        if isinstance(event, ClientRound | RoundEnded):
            for name, value in scalars(event).items():
                self.writer.add_scalar(name, value, event.round)
            self.writer.flush()
        elif isinstance(event, RunEnded):
            self.writer.close()


@TRACKERS.register("mlflow")
class MLflow:
    """A run in the tracking store that mlflow is set up for."""

    def __init__(self, folder: Path, settings: Mapping[str, object]) -> None:
        self.mlflow = library("mlflow", "mlflow")
        self.mlflow.start_run(run_name=folder.name)
        self.mlflow.log_params(dict(settings))

    def __call__(self, event: Event) -> None:
        if isinstance(event, ClientRound | RoundEnded):
            self.mlflow.log_metrics(scalars(event), step=event.round)
        elif isinstance(event, RunEnded):
            finished = event.status == "finished"
            self.mlflow.end_run("FINISHED" if finished else "FAILED")
