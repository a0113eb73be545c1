"""The one reader of a run's folder: settings, records, summary. It needs no torch."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any

from anchorfl.config import Config, TrainOptions
from anchorfl.errors import UserError
from anchorfl.methods import METHODS
from anchorfl.objective import Balance
from anchorfl.options import build
from anchorfl.runs.folder import INCIDENTAL, RunFolder, text_of
from anchorfl.runs.numbers import top
from anchorfl.runs.summary import Summary, are_accuracies, are_numbers
from anchorfl.settings import (
    build_align,
    import_named,
    own_code,
    preset_settings,
    read_yaml,
    resolve,
)

Record = dict[str, Any]
CHOSEN_BY_IMAGES = ("model.name", "train.batch_size")
"""Settings that are chosen by the number and size of the images where nobody sets them."""


@dataclass(frozen=True)
class Run:
    """A run as its folder holds it, whether it finished, stopped, failed or is still going.

    A folder may be somebody else's. Code that its settings name is imported only where the run is
    `trusted`; `code` has the hashes of its files as they were.
    """

    folder: Path
    settings: Mapping[str, object]
    summary: Summary
    metrics: list[Record] = field(repr=False)
    trusted: bool = False
    code: Mapping[str, str] = field(default_factory=dict)

    @property
    def files(self) -> RunFolder:
        return RunFolder(self.folder)

    @property
    def method(self) -> str:
        return str(self.settings["method"])

    @property
    def title(self) -> str:
        """What a picture or a page is of."""
        name = self.settings.get("label") or self.method
        return f"{name} on {self.summary.dataset or self.settings.get('data.name')}"

    @cached_property
    def config(self) -> Config:
        """Everything resolved; asks for the code of the run's method, fusions and data set."""
        self._import_trusted()
        settings = dict(self.settings)
        return resolve(str(settings.pop("method")), settings)

    def _import_trusted(self) -> None:
        if self.trusted:
            import_named(self.settings)

    def vouched(self, config: Config) -> Config:
        """The settings to build networks from, refused where they name code that nobody vouched for."""
        code = [name for name in config.model.names if ":" in name]
        if code and not self.trusted:
            raise UserError(
                f"{self.folder}: its encoder is code ({code[0]}), which is imported only if you"
                " trust it: add --trust"
            )
        return config

    @cached_property
    def clients(self) -> dict[int, list[Record]]:
        """Client records by client, in the order of rounds."""
        found: dict[int, list[Record]] = {}
        for record in self.metrics:
            if record["event"] == "client":
                found.setdefault(record["client"], []).append(record)
        return dict(sorted(found.items()))

    @cached_property
    def evaluations(self) -> list[Record]:
        rounds = (record for record in self.metrics if record["event"] == "round")
        return [record for record in rounds if record["accuracy"] is not None]

    @cached_property
    def lambda_reading(self) -> str | None:
        """The reading that is this method's lambda: raw where it has one, else what the weights see.

        One that is 0 after every round, as V6's in its second stage, is none.
        """
        records = [record for own in self.clients.values() for record in own]
        readings = ("lambda_raw", "lambda_effective")
        known = (name for name in readings if any(each.get(name) for each in records))
        return next(known, None)

    @cached_property
    def largest_lambda(self) -> float | None:
        """Of any client at the end of any round; None without lambda."""
        return top(map(self.largest_lambda_of, self.clients))

    def largest_lambda_of(self, client: int) -> float | None:
        """The same of one client."""
        if self.lambda_reading is None:
            return None
        return top(record.get(self.lambda_reading) for record in self.clients.get(client, []))

    @cached_property
    def warnings(self) -> list[Record]:
        return [record for record in self.metrics if record["event"] == "warning"]

    @cached_property
    def balance(self) -> Balance:
        self._import_trusted()
        return build_align(METHODS.get(self.method), self.section("align"))[0]

    @cached_property
    def train(self) -> TrainOptions:
        return build(TrainOptions, self.section("train"), "train")

    def section(self, name: str) -> dict[str, object]:
        prefix = f"{name}."
        chosen = {key: value for key, value in self.settings.items() if key.startswith(prefix)}
        return {key.removeprefix(prefix): value for key, value in chosen.items()}

    def class_counts(self, client: int) -> list[int]:
        return (self.summary.label_table or {client: []})[client]

    @property
    def unfinished(self) -> bool:
        """Whether it was cut off, or stopped, before all that a run leaves was written."""
        return not self.summary.ended or self.files.checkpoints.is_dir()

    def unlike(self, settings: Mapping[str, object]) -> str | None:
        """The first setting in which this is another experiment, in words."""
        ignored = set(INCIDENTAL)
        if settings["partition.kind"] == "file":
            ignored |= {"data.validation", "partition.clients", "partition.public"}
        ignored |= {key for key in CHOSEN_BY_IMAGES if settings.get(key) is None}
        for key, stored in sorted(self.settings.items()):
            if key not in ignored and stored != settings.get(key):
                return f"{key}={stored}, not {settings.get(key)}"
        return None

    @property
    def of_real_sites(self) -> bool:
        """Whether a server made it of what sites sent; their images are not here."""
        return "server" in (self.summary.environment or {})

    @property
    def sent(self) -> list[int]:
        """The places of the sites that sent an upload."""
        return [place for place, size in enumerate(self.summary.upload_bytes) if size is not None]

    @property
    def changed_code(self) -> list[str]:
        """Files of the user's own that are not what they were when this ran."""
        now = own_code(self.settings)
        return [file for file in now if self.code.get(file, now[file]) != now[file]]

    def require_end(self) -> Run:
        """Itself, refused where the run left no summary."""
        if not self.summary.ended:
            raise UserError(f"{self.folder}: holds no run that ended (no valid summary.json)")
        return self

    def require_whole(self) -> Run:
        """Itself, refused where it did not come to its end."""
        status = self.require_end().summary.status
        if self.unfinished:
            resumes = f"anchorfl run {self.folder} resumes it"
            raise UserError(f"{self.folder}: the run did not finish ({status}); {resumes}")
        if status != "finished":
            raise UserError(f"{self.folder}: the run did not finish ({status})")
        return self


def read_run(folder: str | PathLike[str], trust: bool = False) -> Run:
    """The run in a folder; its files may be compressed (`metrics.jsonl.gz`)."""
    place = RunFolder(Path(folder))
    if not place.path.is_dir():
        is_file = place.path.is_file()
        what = f"is a file; name its folder {place.path.parent}" if is_file else "no such folder"
        raise UserError(f"{place.path}: {what}")
    if not place.config.is_file():
        inside = any(place.path.glob("*/config.yaml"))
        hint = f"; the folders in it are: name {place.path}/*" if inside else ""
        raise UserError(f"{place.path}: is not a run's folder (no config.yaml){hint}")
    content = read_yaml(place.config, "preset")
    settings = preset_settings(content, place.config)
    try:
        lines = (text_of(place.metrics) or "").split("\n")[:-1]  # the last may have been cut
        metrics = [record_of(line) for line in lines]
    except (ValueError, TypeError, RecursionError):
        raise UserError(f"{place.metrics}: is corrupt") from None
    try:
        text = text_of(place.summary)
        summary = Summary() if text is None else Summary.from_json(text)
    except (ValueError, TypeError, RecursionError):
        raise UserError(f"{place.summary}: is corrupt") from None
    return Run(place.path, settings, summary, complete_rounds(metrics), trust, code_in(content))


def code_in(content: Mapping[str, Any]) -> dict[str, str]:
    """The hashes in a config.yaml, by file."""
    code = content.get("code")
    return {str(file): str(known) for file, known in code.items()} if isinstance(code, dict) else {}


EVENTS = {
    "client": {"round", "client", "samples", "base_loss", "lambda_raw"},
    "round": {"round", "accuracy", "local_accuracy"},
    "warning": {"kind", "message"},
    "epoch": {"round", "client"},
}
"""What a line of each kind holds at least."""


def complete_rounds(metrics: list[Record]) -> list[Record]:
    """Without the clients' records of a round that did not end."""
    ended = {record["round"] for record in metrics if record["event"] == "round"}
    return [
        record
        for record in metrics
        if record["event"] not in ("client", "epoch") or record["round"] in ended
    ]


def record_of(line: str) -> Record:
    """A line of metrics.jsonl; ValueError where it is none that a run writes."""
    record: Any = json.loads(line)
    if not is_record(record):
        raise ValueError("no record of a run")
    return dict(record)


def is_record(record: Any) -> bool:
    if not isinstance(record, dict) or record.get("event") not in EVENTS:
        return False
    event = record["event"]
    places = (record.get("round"), record.get("client"))
    if EVENTS[event] - record.keys() or not all(
        each is None or isinstance(each, int) for each in places
    ):
        return False
    if event == "client":
        return are_numbers([value for key, value in record.items() if key != "event"])
    if event == "round" and record["accuracy"] is not None:
        return are_accuracies(record["accuracy"]) and are_numbers(record["local_accuracy"])
    return True
