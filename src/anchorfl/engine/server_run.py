"""The server's part of a real federation: what sites sent becomes a run's folder, and a predictor."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import torch

from anchorfl.compute import choose_device
from anchorfl.engine.data_warnings import undescribed_classes
from anchorfl.engine.events import RunEnded, Warned, Written, as_record
from anchorfl.engine.ledger import environment
from anchorfl.engine.running import named_listeners
from anchorfl.engine.stored_uploads import keep_start, messages_of, write_uploads
from anchorfl.errors import UserError
from anchorfl.files import write_whole
from anchorfl.runs import Run, RunFolder, Summary, read_run
from anchorfl.server import Server
from anchorfl.wire import Description, Request, Task, Upload, kind_of


@dataclass(frozen=True)
class Received:
    """Admitted uploads by site, numbered in the order of names; answers to a second exchange."""

    sites: list[str]
    uploads: list[Upload]
    answers: list[Description]
    refused: list[str]


def receive_files(server: Server, files: Sequence[Path]) -> Received:
    """Admit the uploads in the files, and say why others are refused."""
    uploads, answers, refused = read_messages(files)
    names = sorted({upload.site for upload in uploads})
    data = [replace(each, client=names.index(each.site)).to_bytes() for each in uploads]
    try:
        admitted = server.receive(data)
    except UserError as error:
        raise UserError("; ".join([str(error), *refused])) from None
    refused += map(str, server.refused)
    numbered = [replace(each, client=number) for number, each in enumerate(admitted)]
    present = [names[each.client] for each in admitted]
    here = [replace(each, client=present.index(each.site)) for each in answers if each.site in present]
    return Received(present, numbered, here, refused)


def read_messages(files: Sequence[Path]) -> tuple[list[Upload], list[Description], list[str]]:
    """Uploads, answers, and why other files are none."""
    uploads: dict[str, Upload] = {}
    found: dict[str, tuple[Path, bytes]] = {}
    answers: list[Description] = []
    refused = []
    for file in files:
        data = file.read_bytes()
        try:
            if kind_of(data) == "description":
                answers.append(Description.from_bytes(data))
                continue
            upload = Upload.from_bytes(data)
            if not upload.site:
                raise UserError("names no site")
            first, same = found.setdefault(upload.site, (file, data))
            if first is file:
                uploads[upload.site] = upload
            elif same == data:
                refused.append(f"{file.name}: is the upload of {upload.site} that {first.name} is")
            else:
                uploads.pop(upload.site, None)
                both = f"{first.name} and {file.name}: both say that they are of {upload.site}"
                refused.append(f"{both}, and neither is believed")
        except UserError as error:
            refused.append(f"{file.name}: {error}")
    return list(uploads.values()), answers, refused


def request_of(task: Task, files: Sequence[Path]) -> tuple[Request, Received]:
    """What goes down in a second exchange, where a fusion of the task wants one."""
    if task.config.exchanges == 1:
        raise UserError(f"fusion={','.join(task.config.fusion)}: needs no second exchange")
    server = Server(task, choose_device(task.config.general.device))
    received = receive_files(server, files)
    request = server.request(received.uploads)
    assert request is not None  # there are two exchanges
    return request, received


def fuse_files(
    task: Task, files: Sequence[Path], out: Path, refused: Sequence[str] = ()
) -> tuple[Run, Received]:
    """Admit, fuse and keep: the folder is a run's, with a predictor and no accuracy of its own.

    `refused` says why other files were not even looked at.
    """
    device = choose_device(task.config.general.device)
    server = Server(task, device)
    received = receive_files(server, files)
    received = replace(received, refused=[*refused, *received.refused])
    if task.config.exchanges == 2:
        refuse_other_answers(server, received)
        answers = [answer.to_bytes() for answer in received.answers]
        whole = server.receive_descriptions(received.uploads, answers)
        received = replace(received, uploads=whole)
    server.fuse(received.uploads)
    warned = list(warnings_of(task, received, server.doubts))
    records = "".join([*map(line, warned), *lines(received.uploads)])
    folder = RunFolder.create(str(out), out.name)
    config = task.config.replace_general(out=str(out), device=str(device))
    folder.write_config(config)
    write_whole(folder.metrics, records)
    data = messages_of(received.uploads)
    folder.write_summary(summary_of(task, received, data, warned, device))
    keep_start(folder, task.start)
    write_uploads(folder, received.uploads, data)
    run = read_run(folder.path, trust=True)
    for listener in named_listeners(folder, config):
        listener(RunEnded(run))
    return run, received


def refuse_other_answers(server: Server, received: Received) -> None:
    """An answer belongs to the encoders that were asked about: those of these uploads."""
    request = server.request(received.uploads)
    for answer in received.answers:
        if request is None or answer.request != request.hash:
            sites = ", ".join(received.sites)
            raise UserError(
                f"the answer of {answer.site} is to another request than that of {sites};"
                " ask again with server describe"
            )


def warnings_of(task: Task, received: Received, doubts: Sequence[str]) -> Iterator[Warned]:
    """Who is not in the model, whom the server believes less, and which classes nobody describes."""
    yield from (Warned("refused", reason) for reason in received.refused)
    yield from (Warned("doubt", reason) for reason in doubts)
    table = np.array(label_table(received))
    yield from undescribed_classes(table, task.class_names, task.config)


def label_table(received: Received) -> list[list[int]]:
    """Samples by site and class, as the uploads count them."""
    return [upload.class_counts.tolist() for upload in received.uploads]


def line(event: Written) -> str:
    return json.dumps(as_record(event), allow_nan=False) + "\n"


def lines(uploads: Sequence[Upload]) -> list[str]:
    """metrics.jsonl of what sites said of their rounds, if they did."""
    rounds: dict[int, list[str]] = {}
    for upload in uploads:
        for report in upload.telemetry:
            rounds.setdefault(report.round, []).append(line(replace(report, client=upload.client)))
    found = []
    for number in sorted(rounds):
        ended = {"event": "round", "round": number, "accuracy": None, "local_accuracy": None}
        found += [*rounds[number], json.dumps(ended) + "\n"]
    return found


def summary_of(
    task: Task,
    received: Received,
    data: Mapping[int, bytes],
    warned: Sequence[Warned],
    device: torch.device,
) -> Summary:
    config = task.config
    return Summary(
        method=config.method,
        dataset=config.data.name,
        seed=config.seed,
        status="finished",
        rounds=config.train.rounds,
        task_bytes=len(task.to_bytes()),
        upload_bytes=[len(data[number]) for number in range(len(received.sites))],
        start=None if task.start is None else task.start.hash,
        sites=received.sites,
        label_table=label_table(received),
        images=asdict(task.facts),
        class_names=list(task.class_names),
        environment={"server": "files", **environment(device, None)},
        warnings=[each.message for each in warned],
    )
