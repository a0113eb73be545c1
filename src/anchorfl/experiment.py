"""The Python door: describe an experiment, run it, or open a finished run."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from html import escape
from os import PathLike
from pathlib import Path
from typing import Any

from anchorfl.config import Config
from anchorfl.events import Listener
from anchorfl.model import FusedModel
from anchorfl.report.progress import display_where_seen
from anchorfl.runs import Record, Run, Summary, percent, read_run
from anchorfl.settings import flatten, import_named, refuse_unused, resolve
from anchorfl.simulate import run_in_folder


class Experiment:
    """One experiment, checked when it is made.

    Experiment(method="v4", data={"name": "digits"}, train={"rounds": 20}, seed=1).run()
    """

    def __init__(self, method: str = "v4", **settings: Any) -> None:
        words = flatten(settings)
        import_named({"method": method, **words})
        self.config: Config = resolve(method, words)
        refuse_unused(words, self.config.data.name)

    def __repr__(self) -> str:
        """Short: what would run."""
        return f"Experiment({self.config.method} on {self.config.data.name}, seed {self.config.seed})"

    def run(self, *listeners: Listener, restart: bool = False, progress: bool = True) -> Result:
        """Run to the end; every event also goes to the listeners.

        Where `out` holds the same experiment, unfinished, it goes on; `restart` begins it anew.
        In a terminal or a notebook a bar shows how far it is, unless `progress` is False.
        """
        display = display_where_seen() if progress else None
        shown = () if display is None else (display,)
        return Result(run_in_folder(self.config, (*shown, *listeners), restart))


@dataclass(frozen=True)
class Result:
    """A run that ended, as its folder holds it."""

    run: Run

    def __repr__(self) -> str:
        """Short: what ran, and how accurate each rule ended."""
        figures = ", ".join(f"{name} {percent(share)} %" for name, share in self.accuracy.items())
        return f"Result({self.run.method} on {self.summary.dataset}: {figures}; {self.folder})"

    def _repr_html_(self) -> str:
        """The same in a notebook, as a table."""
        rows = "".join(
            f"<tr><td>{escape(name)}</td><td>{percent(share)}</td></tr>"
            for name, share in self.accuracy.items()
        )
        title = escape(f"{self.run.method} on {self.summary.dataset}, {self.folder}")
        head = "<tr><th>fusion</th><th>test accuracy, %</th></tr>"
        return f"<table><caption>{title}</caption>{head}{rows}</table>"

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
    def predictor(self) -> FusedModel:
        """The primary fusion as a torch module: floats in 0..1 in, scores out."""
        names = self.run.vouched(self.config).model.names
        return FusedModel.load(self.run.files.model, [name for name in names if ":" in name])


def load_run(folder: str | PathLike[str], trust: bool = False) -> Result:
    """The result of a run that ended earlier; `trust` lets its predictor import code that it names."""
    return Result(read_run(folder, trust).require_whole())
