"""The commands of a real federation by files: the server's, a site's, a look into what leaves it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from anchorfl.cli.plain import Commands, ModelCode, stoppable
from anchorfl.errors import UserError
from anchorfl.files import write_whole
from anchorfl.report.console import make_console, say
from anchorfl.report.numbers import counted, megabytes, percent
from anchorfl.settings import parse_words, read_preset

if TYPE_CHECKING:
    from rich.console import Console

    from anchorfl.messages import Task

task_app = Commands("Make and look at a task, what all sites are sent.")
site_app = Commands("What a site does with a task, on its own images.")
server_app = Commands("What the server does with uploads.")

TaskFile = Annotated[Path, typer.Argument(metavar="TASK.safetensors", show_default=False)]
Data = Annotated[
    Path, typer.Option("--data", help="Folder with a folder per class.", show_default=False)
]
Name = Annotated[str, typer.Option("--name", help="The site's name.", show_default=False)]
Out = Annotated[Path, typer.Option("--out", "-o", help="File to write.", show_default=False)]
Holdout = Annotated[
    float | None,
    typer.Option(
        help="Share kept for testing, the task's or more; default: the task's.",
        min=0.01,
        max=0.9,
        show_default=False,
    ),
]
OwnEncoder = Annotated[
    str | None,
    typer.Option("--encoder", help="One of the task's; default: its first.", show_default=False),
]
Code = Annotated[
    str | None,
    typer.Option(
        "--model", help="Your own code for the task's encoder, FILE.py:NAME.", show_default=False
    ),
]
SkipBad = Annotated[
    bool, typer.Option("--skip-bad", help="Leave out files that cannot be read, and count them.")
]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1, mps")]
Threads = Annotated[int | None, typer.Option(help="CPU threads.", min=1, show_default=False)]
Key = Annotated[
    Path | None,
    typer.Option("--sign", help="SSH key to sign the file with (ssh-keygen).", show_default=False),
]


@task_app.command("new")
def task_new(
    preset: Annotated[Path, typer.Argument(metavar="PRESET.yaml", show_default=False)],
    classes: Annotated[Path, typer.Argument(metavar="CLASSES.txt", show_default=False)],
    out: Out,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="KEY=VALUE, over the preset.", show_default=False)
    ] = None,
    grey: Annotated[bool, typer.Option("--grey", help="Images of one channel.")] = False,
) -> None:
    """Fix an experiment for real sites: settings, class names (one a line), what all start from.

    \b
    Example:
      anchorfl task new presets/v4-sites.yaml classes.txt -o task.safetensors --set train.rounds=20
    """
    from anchorfl.prepare import Setup
    from anchorfl.report.federating import show_task
    from anchorfl.transport.making import class_names, task_for_sites

    if out.exists():
        raise UserError(f"--out {out}: is there already, and sites may have it; name a new file")
    words = {**read_preset(preset), **parse_words(settings or [])}
    task, config = task_for_sites(words, class_names(classes), grey)
    data, console = task.to_bytes(), make_console()
    write_whole(out, data)
    show_task(console, task, Setup(task, config))
    say(console, f"task: {out}, {megabytes(len(data))}")


@task_app.command("show")
def task_show(task: TaskFile, model: Code = None) -> None:
    """What a task asks for: the experiment, the classes, what an upload will contain."""
    from anchorfl.prepare import Setup
    from anchorfl.report.federating import show_task

    opened = read_task(task)
    show_task(make_console(), opened, Setup.of(opened, model))


@site_app.command("check")
def site_check(
    task: TaskFile, data: Data, holdout: Holdout = None, encoder: OwnEncoder = None, model: Code = None
) -> None:
    """Whether a site's images can be read, their classes, what would leave, how long it takes."""
    from dataclasses import replace

    import numpy as np
    import torch

    from anchorfl.messages import manifest
    from anchorfl.prepare import Setup
    from anchorfl.report.federating import SHOWN, show_images, show_parts
    from anchorfl.transport.site_training import SiteOptions, read_site, rehearse

    opened, console = read_task(task), make_console()
    options = SiteOptions(data, "this site", holdout, encoder, model)
    setup = Setup.of(opened, model)
    images = read_site(setup, options)
    counts, held = (
        np.bincount(split.labels, minlength=opened.facts.classes).tolist()
        for split in (images.train, images.held_out)
    )
    names = opened.class_names
    say(console, f"task: hash {opened.hash[:SHOWN]}")
    show_images(console, str(data), names, counts, held, images.bad)
    least = setup.config.upload.min_count
    small = [name for name, count in zip(names, counts, strict=True) if 0 < count < least]
    if small:
        say(console, f"under upload.min_count, only counted: {', '.join(small)}")
    upload, seconds = rehearse(opened, images.train, options)
    upload = replace(upload, class_counts=torch.tensor(counts))  # a rehearsal sees a few images
    content, tensors, size = upload.content(), upload.tensors(), len(upload.to_bytes())
    parts = manifest(upload, content, tensors, size)
    show_parts(console, parts, upload, "what would leave this site", names)
    say(console, f"training: about {seconds:,.0f} s on this machine")
    if images.bad:
        raise typer.Exit(1)


@site_app.command("train")
def site_train(
    task: TaskFile,
    data: Data,
    name: Name,
    out: Out,
    holdout: Holdout = None,
    encoder: OwnEncoder = None,
    model: Code = None,
    telemetry: Annotated[
        bool, typer.Option("--telemetry", help="Send losses and lambda of every round along.")
    ] = False,
    counts: Annotated[
        str,
        typer.Option(help="Class counts that leave: exact, or large (of upload.min_count or more)."),
    ] = "exact",
    device: Device = "auto",
    threads: Threads = None,
    skip_bad: SkipBad = False,
    sign: Key = None,
) -> None:
    """Train alone on a site's images and write the one file that leaves it; interrupted runs resume.

    \b
    Example:
      anchorfl site train task.safetensors --data images --name north -o north.upload
    """
    from anchorfl.messages import manifest
    from anchorfl.messages import sign as sign_file
    from anchorfl.report.federating import show_parts
    from anchorfl.report.progress import show_progress
    from anchorfl.transport.site_training import SiteOptions, site_upload

    options = SiteOptions(
        data, name, holdout, encoder, model, telemetry, counts, device, threads, skip_bad
    )
    opened, console = read_task(task), make_console()
    with stoppable():
        folder = out.with_name(f"{out.name}.training")
        trained = site_upload(opened, options, folder, (show_progress(console),))
        content = trained.upload.to_bytes()
        write_whole(out, content)
    upload = trained.upload
    parts = manifest(upload, upload.content(), upload.tensors(), len(content))
    show_parts(console, parts, upload, f"what leaves {name}", opened.class_names)
    say_left_out(console, len(trained.bad))
    if sign is not None:
        say(console, f"signature: {sign_file(out, sign)}")
    say(console, f"report, for this site alone: {trained.run.files.page}")
    say(console, f"upload: {out}, {megabytes(len(content))}; anchorfl inspect {out} shows all of it")


@site_app.command("describe")
def site_describe(
    task: TaskFile,
    request: Annotated[Path, typer.Argument(metavar="REQUEST.safetensors", show_default=False)],
    data: Data,
    name: Name,
    out: Out,
    holdout: Holdout = None,
    encoder: OwnEncoder = None,
    model: Code = None,
    device: Device = "auto",
    skip_bad: SkipBad = False,
    sign: Key = None,
) -> None:
    """Answer a second exchange: sums of this site's images under everybody's encoders."""
    from anchorfl.messages import Request
    from anchorfl.messages import sign as sign_file
    from anchorfl.transport.site_training import SiteOptions, describe_site

    options = SiteOptions(data, name, holdout, encoder, model, device=device, skip_bad=skip_bad)
    asked, console = Request.from_bytes(request.read_bytes()), make_console()
    answer, bad = describe_site(read_task(task), asked, options)
    content = answer.to_bytes()
    write_whole(out, content)
    say_left_out(console, len(bad))
    if sign is not None:
        say(console, f"signature: {sign_file(out, sign)}")
    say(console, f"answer: {out}, {megabytes(len(content))}")


@site_app.command("evaluate")
def site_evaluate(
    model: Annotated[Path, typer.Argument(metavar="MODEL", show_default=False)],
    data: Data,
    name: Name,
    out: Out,
    holdout: Annotated[
        float | None,
        typer.Option(
            help="For a model that does not say what share was held out.",
            min=0.01,
            max=0.9,
            show_default=False,
        ),
    ] = None,
    code: ModelCode = None,
    skip_bad: SkipBad = False,
) -> None:
    """Measure the fused model on the images a site held out; counts are all that leaves.

    \b
    Example:
      anchorfl site evaluate model.safetensors --data images --name north -o north.score
    """
    from anchorfl.cli.model import open_model
    from anchorfl.transport.scores import score_site

    confusion, bad = score_site(open_model(model, code), data, name, out, holdout, skip_bad)
    right, console = float(confusion.diagonal().sum() / confusion.sum()), make_console()
    say_left_out(console, bad)
    say(console, f"{name}: {percent(right)} % of {int(confusion.sum()):,} held-out images; {out}")


@server_app.command("describe")
def server_describe(
    task: TaskFile,
    uploads: Annotated[list[Path], typer.Argument(metavar="UPLOAD...", show_default=False)],
    out: Out,
    model: Code = None,
) -> None:
    """Write what all sites are sent for a second exchange: everybody's encoders."""
    from anchorfl.transport.server_files import request_of

    request, received = request_of(read_task(task), model, uploads)
    data, console = request.to_bytes(), make_console()
    write_whole(out, data)
    for reason in received.refused:
        say(console, f"refused: {reason}")
    sites = ", ".join(received.uploads)
    say(console, f"request: {out}, {megabytes(len(data))}, the encoders of {sites}")


@server_app.command("fuse")
def server_fuse(
    task: TaskFile,
    files: Annotated[list[Path], typer.Argument(metavar="UPLOAD...", show_default=False)],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder to write.", show_default=False)],
    without: Annotated[
        list[str] | None, typer.Option(help="Leave a site out, by name.", show_default=False)
    ] = None,
    allowed_signers: Annotated[
        Path | None,
        typer.Option(help="Refuse uploads that none of these signed.", show_default=False),
    ] = None,
    model: Code = None,
) -> None:
    """Admit uploads, fuse them, and write a folder with a page and the model.

    It ends with 1 where an upload was refused and the others were fused.

    \b
    Examples:
      anchorfl server fuse task.safetensors *.upload -o model
      anchorfl predict model photo.png
      anchorfl export model model.onnx
    """
    from anchorfl.report.federating import show_fused
    from anchorfl.transport.server_files import fuse_files

    if allowed_signers is not None and not allowed_signers.is_file():
        raise UserError(f"--allowed-signers {allowed_signers}: no such file")
    console = make_console()
    fused = fuse_files(read_task(task), files, out, model, allowed_signers, without or ())
    show_fused(console, fused.uploads, fused.run.summary.upload_bytes)
    for warning in fused.run.warnings:
        word = {"refused": "refused", "doubt": "doubt"}.get(warning["kind"], "warning")
        say(console, f"{word}: {warning['message']}")
    say(console, f"page: {fused.run.files.page}")
    say(console, f"model: anchorfl predict {out} IMAGE..., anchorfl export {out} FILE")
    if fused.refused:
        raise typer.Exit(1)


@server_app.command("flower")
def server_flower(
    task: TaskFile,
    sites: Annotated[str, typer.Option(help="Names of the sites, with commas.", show_default=False)],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder to write.", show_default=False)],
    superlink: Annotated[
        str | None,
        typer.Option(
            help="Its name in Flower's config.toml; default: its default.", show_default=False
        ),
    ] = None,
) -> None:
    """Ask sites that are connected to a Flower SuperLink, and fuse what they send.

    Run it on the SuperLink's machine (docs/deploy.md). It ends non-zero where the run does not
    complete; server.min_sites and server.timeout of the task say when to go on without a site.

    \b
    Example:
      anchorfl server flower task.safetensors --sites north,south,west -o model
    """
    from anchorfl.transport.flower_run import run_on_flower

    console = make_console()
    with stoppable():
        run_on_flower(task, sites, out, superlink, lambda line: say(console, line))


@server_app.command("scores")
def server_scores(
    model: Annotated[Path, typer.Argument(metavar="MODEL", show_default=False)],
    scores: Annotated[list[Path], typer.Argument(metavar="SCORE...", show_default=False)],
    code: ModelCode = None,
) -> None:
    """Add up what sites counted on the images they held out, and put it on the model's page."""
    from anchorfl.cli.model import open_model
    from anchorfl.report.page import write_page
    from anchorfl.report.scores import show_scores
    from anchorfl.runs import read_run
    from anchorfl.transport.scores import collect_scores

    console = make_console()
    found = collect_scores(read_run(model), open_model(model, code), scores)
    show_scores(console, found)
    say(console, f"page: {write_page(read_run(model))}")


def inspect(
    file: Annotated[Path, typer.Argument(metavar="UPLOAD", show_default=False)],
    as_json: Annotated[bool, typer.Option("--json", help="Every tensor, as JSON.")] = False,
) -> None:
    """What is in an upload, part by part, and what could be learned from it, before it leaves."""
    import json
    from dataclasses import asdict

    from anchorfl.messages import Upload, manifest, unpack
    from anchorfl.report.federating import SHOWN, show_parts

    try:
        data = file.read_bytes()
        content, tensors = unpack("upload", data)
        upload = Upload.made_of(content, tensors)
    except UserError as error:
        raise UserError(f"{file}: {error}") from None
    parts = manifest(upload, content, tensors, len(data))
    if as_json:
        print(json.dumps([asdict(part) for part in parts], indent=2))
        return
    console = make_console()
    images = f"{upload.samples:,} images counted"
    say(console, f"site {upload.site}, task {upload.task[:SHOWN]}, {images}")
    classes = [f"class {number}" for number in range(upload.class_counts.numel())]
    show_parts(console, parts, upload, str(file), classes)


def say_left_out(console: Console, bad: int) -> None:

    if bad:
        say(console, f"left out, cannot be read: {counted(bad, 'file')}")


def read_task(file: Path) -> Task:
    from anchorfl.messages import Task

    try:
        return Task.from_bytes(file.read_bytes())
    except UserError as error:
        raise UserError(f"{file}: {error}") from None
