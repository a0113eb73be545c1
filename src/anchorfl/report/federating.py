"""A real federation by files, told to the people at its ends."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path

import torch
from rich.console import Console

from anchorfl.data import ImageFacts
from anchorfl.engine import (
    Received,
    SiteOptions,
    check,
    describe_site,
    fuse_files,
    read_site,
    rehearse,
    request_of,
    site_upload,
)
from anchorfl.errors import UserError
from anchorfl.files import write_whole
from anchorfl.registry import DATASETS, METHODS, is_in_a_file
from anchorfl.report.console import say
from anchorfl.report.numbers import counted, megabytes
from anchorfl.report.progress import show_progress
from anchorfl.report.tables import plain_table
from anchorfl.settings import listed_fusions, read_preset, resolve
from anchorfl.wire import (
    Description,
    Request,
    Task,
    Upload,
    by_kind,
    checked_name,
    doubt_in_signature,
    kind_of,
    manifest,
    sign,
)

SHOWN = 12
"""Digits of a hash."""
SERVER_WARNINGS = {"refused": "refused", "doubt": "doubt", "undescribed-classes": "warning"}


def make_task(
    console: Console,
    preset: Path,
    classes: Path,
    out: Path,
    words: dict[str, object],
    grey: bool,
) -> None:
    if out.exists():
        raise UserError(f"--out {out}: is there already, and sites may have it; name a new file")
    settings = {**read_preset(preset), **words}
    method = str(settings.pop("method"))
    fusions = listed_fusions(settings.get("fusion", ""))
    for name in (method, str(settings.get("data.name")), *fusions):
        if is_in_a_file(name):
            raise UserError(
                f"{name}: sites import no code that a task names; install it there as a package"
            )
    config = resolve(method, settings)
    names = class_names(classes)
    spec, size = DATASETS.get(config.data.name), config.data.size
    channels = 1 if grey else 3
    if spec.size is not None:
        raise UserError(f"data.name={config.data.name}: a task is for images of your own; use sites")
    if config.target is not None and config.target.needs_public:
        raise UserError(f"method {method} needs public images at the server, which a task has none of")
    if METHODS.get(method).server is not None:
        raise UserError(f"method {method} has many rounds; files go down and up once")
    check(config)
    shape = (channels, size, size)
    facts = ImageFacts(shape, len(names), spec.mean[:channels], spec.std[:channels])
    task = Task.prepare(config, facts, tuple(names))
    data = task.to_bytes()
    write_whole(out, data)
    show_task(console, task)
    say(console, f"task: {out}, {megabytes(len(data))}")


def class_names(file: Path) -> list[str]:
    """One a line."""
    try:
        lines = file.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError:
        raise UserError(f"{file}: is no text in UTF-8; save it so") from None
    names = [line.strip() for line in lines if line.strip()]
    if len(names) < 2:
        raise UserError(f"{file}: must hold two class names or more, one a line")
    for name in names:
        if names.count(name) > 1:
            raise UserError(f"{file}: {name!r} stands there {names.count(name)} times; leave one")
        if "/" in name or name.startswith("."):
            raise UserError(f"{file}: {name!r} is no name of a folder")
    return names


def read_task(file: Path, model: str | None = None) -> Task:
    try:
        return Task.from_bytes(file.read_bytes(), model)
    except UserError as error:
        raise UserError(f"{file}: {error}") from None


def show_task(console: Console, task: Task) -> None:
    config, (channels, height, width) = task.config, task.facts.shape
    train = config.train
    start = "from the seed" if task.start is None else f"a start, hash {task.start.hash[:SHOWN]}"
    rows = [
        ["hash", task.hash[:SHOWN]],
        ["method", config.method],
        ["fusion", ", ".join(config.fusion)],
        ["classes", ", ".join(task.class_names)],
        ["images", f"{channels} x {height} x {width}"],
        ["encoder", ", ".join(task.encoders)],
        ["starts", start],
        ["training", f"{counted(train.rounds, 'round')} of {counted(train.local_epochs, 'epoch')}"],
        ["exchanges", str(config.exchanges)],
        ["statistics", ", ".join(sorted(config.needs)) or "none"],
    ]
    console.print(plain_table(["", ""], rows, "task"))


def check_site(
    console: Console, task: Task, data: Path, holdout: float | None, encoder: str | None
) -> None:
    train, test = read_site(task, data, holdout)
    counts = torch.bincount(torch.from_numpy(train.labels), minlength=task.facts.classes).tolist()
    held = torch.bincount(torch.from_numpy(test.labels), minlength=task.facts.classes).tolist()
    names = task.class_names
    say(console, f"task: hash {task.hash[:SHOWN]}")
    rows = [[name, str(a), str(b)] for name, a, b in zip(names, counts, held, strict=True)]
    console.print(plain_table(["class", "to train on", "held out"], rows, str(data)))
    small = [
        name
        for name, count in zip(names, counts, strict=True)
        if 0 < count < task.config.upload.min_count
    ]
    if small:
        say(console, f"under upload.min_count, only counted: {', '.join(small)}")
    upload, seconds = rehearse(task, train, encoder)
    whole = replace(upload, class_counts=torch.tensor(counts))  # a rehearsal sees a few images
    show_parts(console, whole.to_bytes(), "what would leave this site", names)
    say(console, f"training: about {seconds:,.0f} s on this machine")


def train_and_write(
    console: Console,
    task: Task,
    site: SiteOptions,
    out: Path,
    key: Path | None,
) -> None:
    folder = out.with_name(f"{out.name}.training")
    run, content = site_upload(task, site, folder, (show_progress(console),))
    write_whole(out, content)
    show_parts(console, content, f"what leaves {site.name}", task.class_names)
    if key is not None:
        say(console, f"signature: {sign(out, key)}")
    say(console, f"report, for this site alone: {run.files.page}")
    say(console, f"upload: {out}, {megabytes(len(content))}; anchorfl inspect {out} shows all of it")


def show_upload(console: Console, file: Path, as_json: bool) -> None:
    try:
        data = file.read_bytes()
        parts = manifest(data)
    except UserError as error:
        raise UserError(f"{file}: {error}") from None
    if as_json:
        print(json.dumps([asdict(part) for part in parts], indent=2))
        return
    upload = Upload.from_bytes(data)
    say(
        console,
        f"site {upload.site or '?'}, task {upload.task[:SHOWN]}, {upload.samples:,} images counted",
    )
    classes = [f"class {number}" for number in range(upload.class_counts.numel())]
    show_parts(console, data, str(file), classes)


def show_parts(console: Console, data: bytes, title: str, class_names: Sequence[str]) -> None:
    parts = list(by_kind(manifest(data)))
    rows = [[part.name, part.shape, f"{part.bytes:,}", part.is_what] for part in parts]
    headings = ["part", "shape", "bytes", "what it is"]
    console.print(plain_table(headings, rows, f"{title}: {len(data):,} bytes"))
    for part in parts:
        say(console, f"{part.name} ({part.of_whom}) could reveal: {part.reveals}")
    upload = Upload.from_bytes(data)
    say_span(console, upload)
    counts = upload.class_counts.flatten().tolist()
    held = [f"{name}: {count:,}" for name, count in zip(class_names, counts, strict=True) if count]
    others = "" if all(counts) else "; 0 of the others"
    say(console, f"class counts that leave: {', '.join(held)}{others}")


def say_span(console: Console, upload: Upload) -> None:
    """That there are fewer images here than numbers in a description, where it is so."""
    rows = upload.statistics.get("sketch_moments/cross", upload.statistics.get("sketch_moments/norms"))
    numbers = len(rows) if rows is not None and rows.dim() else 0
    if upload.samples < numbers:
        images = counted(upload.samples, "image")
        span = f"{images}, {numbers:,} numbers: their span is these images'"
        say(console, f"statistics/sketch_moments here: {span}")


def write_request(console: Console, task: Task, files: Sequence[Path], out: Path) -> None:
    request, received = request_of(task, files)
    data = request.to_bytes()
    write_whole(out, data)
    for reason in received.refused:
        say(console, f"refused: {reason}")
    sites = ", ".join(received.sites)
    say(console, f"request: {out}, {megabytes(len(data))}, the encoders of {sites}")


def answer_request(
    console: Console,
    task: Task,
    file: Path,
    data: Path,
    name: str,
    out: Path,
    holdout: float | None,
    encoder: str | None,
    device: str,
    key: Path | None,
) -> None:
    request = Request.from_bytes(file.read_bytes())
    checked_name(name)
    train, _ = read_site(task, data, holdout)
    content = describe_site(task, request, name, train, encoder, device).to_bytes()
    write_whole(out, content)
    if key is not None:
        say(console, f"signature: {sign(out, key)}")
    say(console, f"answer: {out}, {megabytes(len(content))}")


def fuse_and_report(
    console: Console,
    task: Task,
    files: Sequence[Path],
    out: Path,
    without: Sequence[str],
    allowed: Path | None,
) -> bool:
    """Whether every upload was admitted."""
    if allowed is not None and not allowed.is_file():
        raise UserError(f"--allowed-signers {allowed}: no such file")
    sites = {file: site_of(file) for file in files} if allowed or without else {}
    signed, refused = believed_files(files, sites, allowed)
    if not signed:
        raise UserError("; ".join(["no upload is signed as it must be", *refused]))
    kept = [file for file in signed if sites.get(file) not in without]
    missing = [name for name in without if name not in sites.values()]
    if missing:
        raise UserError(f"--without {missing[0]}: there is no upload of that site")
    run, received = fuse_files(task, kept, out, refused)
    console.print(
        plain_table(
            ["site", "images", "classes", "encoder", "MB"],
            by_site(received, run.summary.upload_bytes),
            "fused",
        )
    )
    for warning in run.warnings:
        say(console, f"{SERVER_WARNINGS[warning['kind']]}: {warning['message']}")
    say(console, f"page: {run.files.page}")
    say(console, f"predictor: anchorfl predict {out} IMAGE..., anchorfl export {out} FILE")
    return not received.refused


def by_site(received: Received, sizes: Sequence[int | None]) -> list[list[str]]:
    return [
        [
            name,
            f"{upload.samples:,}",
            str(int((upload.class_counts > 0).sum())),
            upload.network or "-",
            f"{(size or 0) / 1e6:,.1f}",
        ]
        for name, upload, size in zip(received.sites, received.uploads, sizes, strict=True)
    ]


def site_of(file: Path) -> str:
    """The name in an upload or answer; "" where there is none to be read."""
    try:
        data = file.read_bytes()
        kind = Description if kind_of(data) == "description" else Upload
        return kind.from_bytes(data).site
    except (OSError, UserError):
        return ""


def believed_files(
    files: Sequence[Path], sites: Mapping[Path, str], allowed: Path | None
) -> tuple[list[Path], list[str]]:
    """Those that their sites signed, where signatures are asked for; why others are not."""
    if allowed is None:
        return list(files), []
    kept, refused = [], []
    for file in files:
        reason = doubt_in_signature(file, sites[file], allowed)
        if reason is None:
            kept.append(file)
        else:
            refused.append(f"{file.name}: {reason}")
    return kept, refused
