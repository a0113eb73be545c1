"""Listeners that send a run's numbers to a tracker, under the names that metrics.jsonl uses."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from anchorfl.errors import UserError
from anchorfl.events import ClientRound, Event, Listener, RoundEnded, RunEnded, as_record


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


MODULES = {"tensorboard": "torch.utils.tensorboard", "mlflow": "mlflow"}


def require(name: str) -> Any:
    """The tracker's own module, or a line that says how to get it."""
    try:
        return import_module(MODULES[name])
    except ImportError:
        raise UserError(f"track={name} needs the extra: pip install 'anchorfl[track]'") from None


class TensorBoard:
    """Event files in the run's folder, under tensorboard/."""

    def __init__(self, folder: Path) -> None:
        self.writer = require("tensorboard").SummaryWriter(str(folder / "tensorboard"))

    def __call__(self, event: Event) -> None:
        if isinstance(event, ClientRound | RoundEnded):
            for name, value in scalars(event).items():
                self.writer.add_scalar(name, value, event.round)
            self.writer.flush()
        elif isinstance(event, RunEnded):
            self.writer.close()


class MLflow:
    """A run in the tracking store that mlflow is set up for."""

    def __init__(self, folder: Path, settings: dict[str, object]) -> None:
        self.mlflow = require("mlflow")
        self.mlflow.start_run(run_name=folder.name)
        self.mlflow.log_params(settings)

    def __call__(self, event: Event) -> None:
        if isinstance(event, ClientRound | RoundEnded):
            self.mlflow.log_metrics(scalars(event), step=event.round)
        elif isinstance(event, RunEnded):
            self.mlflow.end_run("FINISHED" if event.summary["status"] == "finished" else "FAILED")


def tracker(name: str, folder: Path, settings: dict[str, object]) -> Listener:
    return TensorBoard(folder) if name == "tensorboard" else MLflow(folder, settings)
