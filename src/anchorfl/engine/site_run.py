"""One site's part of a real federation: it trains alone, in a folder of its own, on its own images."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from anchorfl.compute import choose_device, choose_threads, working_precision
from anchorfl.data import Dataset, ImageStore, Partition, Split, read_site_folder
from anchorfl.engine.events import Listener
from anchorfl.engine.federation import Federation
from anchorfl.engine.running import train_in
from anchorfl.errors import UserError
from anchorfl.files import locked, write_whole
from anchorfl.registry import STATISTICS
from anchorfl.runs import Run, RunFolder, read_run
from anchorfl.settings import SMALL_IMAGE
from anchorfl.site import Client, Trainer
from anchorfl.wire import ClientRound, Description, Request, Task, Upload, checked_name, digest

EVERYTHING, LARGE = "exact", "large"
REHEARSED = 3
"""Batches."""


@dataclass(frozen=True)
class SiteOptions:
    """What a site decides for itself; no task can.

    `holdout`, the task's share or a larger one, and `encoder` are the task's where they are not given.
    Of its rounds nothing leaves without `telemetry`; `counts` are exact, or of large classes alone.
    """

    data: Path
    name: str
    holdout: float | None = None
    encoder: str | None = None
    telemetry: bool = False
    counts: str = EVERYTHING
    device: str = "auto"
    threads: int | None = None

    def __post_init__(self) -> None:
        if not checked_name(self.name):
            raise UserError("a site needs a name (--name)")
        if self.counts not in (EVERYTHING, LARGE):
            raise UserError(f"--counts {self.counts}: must be {EVERYTHING} or {LARGE}")
        if not isinstance(self.telemetry, bool):
            raise UserError(f"telemetry={self.telemetry!r}: must be true or false, without quotes")
        if self.threads is not None and type(self.threads) is not int:
            raise UserError(f"threads={self.threads!r}: must be a whole number, without quotes")
        if self.holdout is not None and not (isinstance(self.holdout, float) and 0 < self.holdout < 1):
            raise UserError(f"holdout={self.holdout!r}: must be a share such as 0.2, without quotes")


def site_upload(
    task: Task, site: SiteOptions, folder: Path, listeners: tuple[Listener, ...] = ()
) -> tuple[Run, bytes]:
    """Train in a folder, or go on there; the run, which stays, and what leaves the site."""
    images = read_site(task, site.data, site.holdout)
    run = train_site(
        task, site.name, images, folder, site.encoder, site.device, site.threads, listeners
    )
    return run, upload_to_send(run, site.telemetry, site.counts).to_bytes()


def read_site(task: Task, root: Path, holdout: float | None = None) -> tuple[Split, Split]:
    """A site's images, matched to the task's classes by the names of their folders; those held out.

    The model is measured on the task's share of all sites' images, so a site may hold out more.
    """
    share = task.config.data.holdout
    if holdout is not None and holdout < share:
        raise UserError(
            f"--holdout {holdout:g}: the task keeps {share:g} of every site's images for testing;"
            " keep as many or more"
        )
    train, test = read_site_folder(root, list(task.class_names), holdout or share, task.facts.shape)
    if not len(train):
        raise UserError(f"--data {root}: holds no image to train on")
    return train, test


def train_site(
    task: Task,
    name: str,
    images: tuple[Split, Split],
    folder: Path,
    encoder: str | None = None,
    device: str = "auto",
    threads: int | None = None,
    listeners: tuple[Listener, ...] = (),
) -> Run:
    """Train as the task says, or go on where the same training was cut off; all of it in a folder.

    What the page there shows is what this site alone can do, on the images that it held out.
    """
    train, test = images
    if not len(test):
        raise UserError(f"site {name}: none of {len(train):,} images is held out; raise --holdout")
    federation = of_one_site(task, name, train, test, encoder, device, threads)
    place = RunFolder(folder)
    place.path.mkdir(parents=True, exist_ok=True)
    with locked(place.path):
        refuse_another(place.path / "training", stamp(federation, images), folder)
        if place.config.is_file():
            begun = read_run(place.path, trust=True)
            if not begun.unfinished:
                return begun
        try:
            return train_in(place, federation, listeners)
        except KeyboardInterrupt:
            raise KeyboardInterrupt from None  # the site's own command goes on there, `run` does not


def stamp(federation: Federation, images: tuple[Split, Split]) -> str:
    """Names a training: the task, the site, its encoder, its images."""
    content = {
        "task": federation.task.hash,
        "site": federation.sites[0],
        "encoder": federation.encoder,
        "threads": federation.config.general.threads,
        "device": federation.config.general.device,
    }
    parts = [array for split in images for array in (split.images, split.labels)]
    return digest(content, {str(n): torch.from_numpy(array) for n, array in enumerate(parts)})


def refuse_another(file: Path, named: str, folder: Path) -> None:
    """A folder holds one training; the same goes on there, another is refused."""
    if not file.is_file():
        write_whole(file, named)
    elif file.read_text() != named:
        raise UserError(
            f"{folder}: holds another training (of another task, site, encoder or other images);"
            " name a new --out, or remove it"
        )


def of_one_site(
    task: Task,
    name: str,
    train: Split,
    test: Split,
    encoder: str | None,
    device: str,
    threads: int | None,
) -> Federation:
    chosen = choose_device(device)
    config = task.config
    options = replace(
        config.train,
        precision=working_precision(config.train.precision, chosen),
        checkpoint_every=config.train.checkpoint_every or 1,
    )
    small = max(task.facts.shape[1:]) <= SMALL_IMAGE
    config = replace(config, train=options)
    config = config.replace_general(device=str(chosen), threads=choose_threads(threads, small))
    own = np.arange(len(train))
    return Federation(
        config,
        Dataset(config.data.name, train, test, list(task.class_names), task.facts),
        Partition([own], own[:0], own[:0]),
        task,
        chosen,
        sites=[name],
        encoder=chosen_encoder(task, encoder),
    )


def chosen_encoder(task: Task, encoder: str | None) -> str:
    """The site's own choice of those that the task knows, or the first."""
    if encoder is not None and encoder not in task.encoders:
        raise UserError(f"--encoder {encoder}: the task knows {', '.join(task.encoders)}")
    return encoder or next(iter(task.encoders))


def upload_to_send(run: Run, telemetry: bool = False, counts: str = EVERYTHING) -> Upload:
    """What leaves the site: its upload, of its rounds nothing unless it wants to.

    With counts `large` alone, classes under `upload.min_count` samples are not counted.
    """
    (data,) = run.files.read_uploads(run.summary.upload_bytes)
    upload = Upload.from_bytes(data)
    statistics = {
        name: value
        for name, value in upload.statistics.items()
        if STATISTICS.get(name.partition("/")[0]).exchange == 1
    }
    reports = tuple(reported(record) for own in run.clients.values() for record in own)
    numbers = upload.class_counts
    if counts == LARGE:
        numbers = numbers * (numbers >= run.config.upload.min_count)
    return replace(
        upload,
        statistics=statistics,
        class_counts=numbers,
        telemetry=reports if telemetry else (),
    )


def reported(record: dict[str, object]) -> ClientRound:
    """A line of metrics.jsonl as it was before it was written."""
    known = set(ClientRound.__dataclass_fields__) - {"readings"}
    others = {name: value for name, value in record.items() if name not in (*known, "event")}
    named = {name: record.get(name) for name in known}
    return ClientRound.from_record({**named, "readings": others})


def rehearse(task: Task, train: Split, encoder: str | None = None) -> tuple[Upload, float]:
    """What an upload will look like after a short round, and how long the training will take here."""
    options, device = task.config.train, choose_device("auto")
    few = min(len(train), REHEARSED * options.batch_size)
    client = client_of(task, "", Split(train.images[:few], train.labels[:few]), encoder, device)
    if not client.trainer.trains:
        return client.upload(), 0.0
    started = time.perf_counter()
    client.train_round(0, lambda samples: None)
    seconds = time.perf_counter() - started
    return client.upload(), seconds * options.rounds * len(train) / few


def describe_site(
    task: Task,
    request: Request,
    name: str,
    train: Split,
    encoder: str | None = None,
    device: str = "auto",
) -> Description:
    """The second exchange: the site's sums under everybody's encoders."""
    if request.task != task.hash:
        raise UserError("this request belongs to another task")
    if task.config.exchanges == 1:
        raise UserError(f"fusion={','.join(task.config.fusion)}: the task has no second exchange")
    client = client_of(task, name, train, encoder, choose_device(device))
    for network, weights in request.encoders:
        if network and network not in task.encoders:
            raise UserError(f"this request is of {network[:80]}, which the task does not know")
        client.trainer.runners[network].network.check(weights)
    return replace(client.describe(request), request=request.hash)


def client_of(task: Task, name: str, train: Split, encoder: str | None, device: torch.device) -> Client:
    trainer = Trainer(task.for_encoder(chosen_encoder(task, encoder)), device)
    store = ImageStore(train, device)
    return Client(0, trainer, store, np.arange(len(train)), task.facts.classes, name)
