"""A real server: what sites sent in files becomes a folder with a page and a model."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import numpy as np

from anchorfl.errors import UserError
from anchorfl.events import RunEnded, Warned, Written, as_record
from anchorfl.files import write_whole
from anchorfl.loop import environment, keep_start, named_listeners, undescribed_classes, write_frozen
from anchorfl.messages import (
    Description,
    Request,
    Task,
    Upload,
    doubt_in_signature,
    kind_of,
)
from anchorfl.prepare import Setup
from anchorfl.runs import Run, RunFolder, Summary, read_run, refuse_used
from anchorfl.server import Refusal, Server

LARGEST_ANSWER = 8_000_000_000
"""Bytes: an answer to a second exchange grows with the square of all encoders' features."""


@dataclass
class Received:
    """Files by site, each read and parsed once: uploads and answers, and why others are none."""

    uploads: dict[str, tuple[Upload, str, bytes]] = field(default_factory=dict)
    answers: dict[str, Description] = field(default_factory=dict)
    refused: list[str] = field(default_factory=list)
    sites: set[str] = field(default_factory=set)
    doubled: set[str] = field(default_factory=set)

    def take(self, file: Path, allowed: Path | None, largest: int, gone: Collection[str] = ()) -> None:
        """Parse a file, and keep it under its site's name; `gone` are sites to be left out."""
        try:
            if file.stat().st_size > largest:
                raise UserError(f"has {file.stat().st_size:,} bytes, more than {largest:,}")
            data = file.read_bytes()
            kind = Description if kind_of(data) == "description" else Upload
            message = kind.from_bytes(data)
            self.sites.add(message.site)
            doubt = None if allowed is None else doubt_in_signature(file, data, message.site, allowed)
            if doubt is not None:
                raise UserError(doubt)
            if message.site in gone:
                return
            if isinstance(message, Description):
                self.answers[message.site] = message
            else:
                self.keep(message, file.name, data)
        except UserError as error:
            self.refused.append(f"{file.name}: {error}")

    def keep(self, upload: Upload, name: str, data: bytes) -> None:
        """Of two different uploads in one site's name neither is believed."""
        if upload.site not in self.uploads:
            self.uploads[upload.site] = upload, name, data
            return
        _, first, same = self.uploads[upload.site]
        if same == data:
            raise UserError(f"is the upload of {upload.site} that {first} is")
        self.doubled.add(upload.site)
        both = f"{first} and {name}: both say that they are of {upload.site}"
        self.refused.append(f"{both}, and neither is believed")


def receive_files(
    server: Server,
    files: Sequence[Path],
    allowed: Path | None = None,
    gone: Collection[str] = (),
) -> Received:
    """Admit the uploads in the files; UserError, the first cause first, where too few are."""
    received = Received()
    largest = server.admission.largest() if server.exchanges == 1 else LARGEST_ANSWER
    for file in files:
        received.take(file, allowed, largest, gone)
    for site in gone:
        if site not in received.sites:
            raise UserError(f"--without {site}: there is no upload of that site")
    for site in received.doubled:
        del received.uploads[site]
    for site, (upload, name, _) in sorted(received.uploads.items()):
        found = server.receive(upload)
        if isinstance(found, Refusal):
            received.refused.append(f"{name}: {found}")
            del received.uploads[site]
    server.require_enough(received.refused, len(files))
    received.answers = {
        site: answer for site, answer in received.answers.items() if site in server.uploads
    }
    return received


def request_of(task: Task, model: str | None, files: Sequence[Path]) -> tuple[Request, Received]:
    """What goes down in a second exchange, where a fusion of the task wants one."""
    server = Server(Setup.of(task, model))
    if server.exchanges == 1:
        raise UserError(f"fusion={','.join(server.config.fusion)}: needs no second exchange")
    received = receive_files(server, files)
    request = server.request()
    assert request is not None  # there are two exchanges
    return request, received


@dataclass(frozen=True)
class FusedFiles:
    """What came of `server fuse`: its folder, the uploads by site, and why other files are none."""

    run: Run
    uploads: dict[str, Upload]
    refused: Sequence[str]


def fuse_files(
    task: Task,
    files: Sequence[Path],
    out: Path,
    model: str | None = None,
    allowed: Path | None = None,
    gone: Collection[str] = (),
) -> FusedFiles:
    """Admit, fuse and keep: the folder is a run's, with a model and no accuracy of its own."""
    refuse_used(out)
    server = Server(Setup.of(task, model))
    server.holdout = server.config.data.holdout
    received = receive_files(server, files, allowed, gone)
    if server.exchanges == 2:
        try:
            server.receive_answers(list(received.answers.values()))
        except UserError as error:
            raise UserError("; ".join([*received.refused, str(error)])) from None
    fused = server.fuse()
    warned = list(warnings_of(server, received.refused))
    uploads = list(server.uploads.values())
    folder = RunFolder.create(str(out), out.name)
    config = server.config.replace_general(out=str(out), device=str(server.device))
    folder.write_config(config)
    write_whole(folder.metrics, "".join([*map(line, warned), *rounds_of(uploads)]))
    folder.uploads.mkdir(exist_ok=True)
    sizes: list[int | None] = []
    for number, upload in enumerate(uploads):
        _, _, as_sent = received.uploads[upload.site]
        data = upload.to_bytes() if server.exchanges == 2 else as_sent
        write_whole(folder.upload(number), data)
        sizes.append(len(data))
    write_frozen(folder, uploads)
    keep_start(folder, task.start)
    fused.save(folder.model)
    folder.write_summary(summary_of(server, sizes, warned))
    for listener in named_listeners(folder, config):
        listener(RunEnded(folder.path, "finished"))
    return FusedFiles(read_run(folder.path, trust=True), server.uploads, received.refused)


def warnings_of(server: Server, refused: Sequence[str]) -> Iterator[Warned]:
    """Who is not in the model, whom the server believes less, and which classes nobody describes."""
    yield from (Warned("refused", reason) for reason in refused)
    yield from (Warned("doubt", reason) for reason in server.doubts)
    table = np.array(label_table(server))
    yield from undescribed_classes(table, server.task.class_names, server.config)


def label_table(server: Server) -> list[list[int]]:
    """Samples by site and class, as the uploads count them."""
    return [upload.class_counts.tolist() for upload in server.uploads.values()]


def line(event: Written) -> str:
    return json.dumps(as_record(event), allow_nan=False) + "\n"


def rounds_of(uploads: Sequence[Upload]) -> Iterator[str]:
    """Lines of metrics.jsonl of what sites said of their rounds, if they did."""
    rounds: dict[int, list[str]] = {}
    for number, upload in enumerate(uploads):
        for report in upload.telemetry:
            rounds.setdefault(report.round, []).append(line(replace(report, client=number)))
    for number in sorted(rounds):
        yield from rounds[number]
        ended = {"event": "round", "round": number, "accuracy": None, "local_accuracy": None}
        yield json.dumps(ended) + "\n"


def summary_of(server: Server, sizes: list[int | None], warned: Sequence[Warned]) -> Summary:
    task, config = server.task, server.config
    return Summary(
        method=config.method,
        dataset=config.data.name,
        seed=config.seed,
        status="finished",
        rounds=config.train.rounds,
        task_bytes=len(task.to_bytes()),
        upload_bytes=sizes,
        start=None if task.start is None else task.start.hash,
        sites=list(server.uploads),
        label_table=label_table(server),
        images=asdict(task.facts),
        class_names=list(task.class_names),
        environment={"server": "files", **environment(server.device, None)},
        warnings=[each.message for each in warned],
    )
