"""The commands of a real federation by files: the server's, a site's, a look into what leaves it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from anchorfl.cli.plain import Commands
from anchorfl.cli.run import stoppable
from anchorfl.settings import parse_words

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
    from anchorfl.report.console import make_console
    from anchorfl.report.federating import make_task

    make_task(make_console(), preset, classes, out, parse_words(settings or []), grey)


@task_app.command("show")
def task_show(task: TaskFile, model: Code = None) -> None:
    """What a task asks for: the experiment, the classes, what an upload will contain."""
    from anchorfl.report.console import make_console
    from anchorfl.report.federating import read_task, show_task

    show_task(make_console(), read_task(task, model))


@site_app.command("check")
def site_check(
    task: TaskFile, data: Data, holdout: Holdout = None, encoder: OwnEncoder = None, model: Code = None
) -> None:
    """Whether a site's images can be read, their classes, what would leave, how long it takes."""
    from anchorfl.report.console import make_console
    from anchorfl.report.federating import check_site, read_task

    check_site(make_console(), read_task(task, model), data, holdout, encoder)


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
    sign: Key = None,
) -> None:
    """Train alone on a site's images and write the one file that leaves it; what was stopped goes on.

    \b
    Example:
      anchorfl site train task.safetensors --data images --name north -o north.upload
    """
    from anchorfl.engine import SiteOptions
    from anchorfl.report.console import make_console
    from anchorfl.report.federating import read_task, train_and_write

    site = SiteOptions(data, name, holdout, encoder, telemetry, counts, device, threads)
    with stoppable():
        train_and_write(make_console(), read_task(task, model), site, out, sign)


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
    sign: Key = None,
) -> None:
    """Answer a second exchange: sums of this site's images under everybody's encoders."""
    from anchorfl.report.console import make_console
    from anchorfl.report.federating import answer_request, read_task

    answer_request(
        make_console(),
        read_task(task, model),
        request,
        data,
        name,
        out,
        holdout,
        encoder,
        device,
        sign,
    )


@site_app.command("evaluate")
def site_evaluate(
    model: Annotated[Path, typer.Argument(metavar="FILE.safetensors|MODEL", show_default=False)],
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
) -> None:
    """Measure the fused predictor on the images a site held out; counts are all that leaves.

    \b
    Example:
      anchorfl site evaluate model.safetensors --data images --name north -o north.score
    """
    from anchorfl.report.console import make_console
    from anchorfl.report.scores import score_site

    score_site(make_console(), model, data, name, out, holdout)


@server_app.command("describe")
def server_describe(
    task: TaskFile,
    uploads: Annotated[list[Path], typer.Argument(metavar="UPLOAD...", show_default=False)],
    out: Out,
    model: Code = None,
) -> None:
    """Write what all sites are sent for a second exchange: everybody's encoders."""
    from anchorfl.report.console import make_console
    from anchorfl.report.federating import read_task, write_request

    write_request(make_console(), read_task(task, model), uploads, out)


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
    """Admit uploads, fuse them, and write a folder with a page and a predictor.

    It ends with 1 where an upload was refused and the others were fused.

    \b
    Examples:
      anchorfl server fuse task.safetensors *.upload -o model
      anchorfl predict model photo.png
      anchorfl export model model.onnx
    """
    from anchorfl.report.console import make_console
    from anchorfl.report.federating import fuse_and_report, read_task

    federation = read_task(task, model)
    if not fuse_and_report(make_console(), federation, files, out, without or [], allowed_signers):
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
    from anchorfl.report.console import make_console
    from anchorfl.report.on_flower import run_on_flower

    with stoppable():
        run_on_flower(make_console(), task, sites, out, superlink)


@server_app.command("scores")
def server_scores(
    model: Annotated[Path, typer.Argument(metavar="MODEL", show_default=False)],
    scores: Annotated[list[Path], typer.Argument(metavar="SCORE...", show_default=False)],
) -> None:
    """Add up what sites counted on the images they held out, and put it on the model's page."""
    from anchorfl.report.console import make_console
    from anchorfl.report.scores import collect_scores

    collect_scores(make_console(), model, scores)


def inspect(
    file: Annotated[Path, typer.Argument(metavar="UPLOAD", show_default=False)],
    as_json: Annotated[bool, typer.Option("--json", help="Every tensor, as JSON.")] = False,
) -> None:
    """What is in an upload, part by part, and what could be learned from it, before it leaves."""
    from anchorfl.report.console import make_console
    from anchorfl.report.federating import show_upload

    show_upload(make_console(), file, as_json)
