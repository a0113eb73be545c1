"""A real site: it trains alone, in a folder of its own, on its own images."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from anchorfl.compute import choose_device, choose_threads, working_precision
from anchorfl.data import Dataset, Partition, Shard, Split, read_site_folder, refuse_unreadable
from anchorfl.errors import UserError
from anchorfl.events import ClientRound, Listener, Warned
from anchorfl.files import locked, write_whole
from anchorfl.loop import Engine, InProcess, Outcome, Rounds, record, untested_classes, uploads_of
from anchorfl.measures import Evaluation
from anchorfl.messages import Description, Request, Task, Upload, checked_name, digest
from anchorfl.prepare import Setup
from anchorfl.runs import Run, RunFolder, read_run
from anchorfl.settings import SMALL_IMAGE
from anchorfl.site import Site, Trainer
from anchorfl.statistics import exchanges

EVERYTHING, LARGE = "exact", "large"
REHEARSED = 3
"""Batches."""
ALONE = "this site alone"
"""What records call the accuracy of the site's own model, by its own prototypes."""


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
    model: str | None = None
    telemetry: bool = False
    counts: str = EVERYTHING
    device: str = "auto"
    threads: int | None = None
    skip_bad: bool = False

    def __post_init__(self) -> None:
        checked_name(self.name)
        if self.counts not in (EVERYTHING, LARGE):
            raise UserError(f"--counts {self.counts}: must be {EVERYTHING} or {LARGE}")
        for name in ("telemetry", "skip_bad"):
            if not isinstance(getattr(self, name), bool):
                given = getattr(self, name)
                raise UserError(f"{name}={given!r}: must be true or false, without quotes")
        if self.threads is not None and type(self.threads) is not int:
            raise UserError(f"threads={self.threads!r}: must be a whole number, without quotes")
        if self.holdout is not None and not (isinstance(self.holdout, float) and 0 < self.holdout < 1):
            raise UserError(f"holdout={self.holdout!r}: must be a share such as 0.2, without quotes")


@dataclass(frozen=True)
class SiteImages:
    """What a site holds, matched to the task's classes: to train on, held out, and what is no image."""

    train: Split
    held_out: Split
    bad: Sequence[tuple[Path, str]]


def read_site(setup: Setup, options: SiteOptions) -> SiteImages:
    """The model is measured on the task's share of all sites' images; a site may hold out more."""
    task, share, own = setup.task, setup.config.data.holdout, options.holdout
    if own is not None and own < share:
        raise UserError(
            f"--holdout {own:g}: the task keeps {share:g} of every site's images for testing;"
            " keep as many or more"
        )
    train, test, bad = read_site_folder(
        options.data, list(task.class_names), own or share, task.facts.shape
    )
    if not len(train):
        first = "".join(f"; {path}: {why}" for path, why in bad[:1])
        raise UserError(f"--data {options.data}: holds no image to train on{first}")
    return SiteImages(train, test, bad)


def sound_images(setup: Setup, options: SiteOptions) -> SiteImages:
    """The same, refused where a file cannot be read and the site did not choose to skip it."""
    images = read_site(setup, options)
    if not options.skip_bad:
        refuse_unreadable(images.bad)
    return images


def chosen_encoder(setup: Setup, encoder: str | None) -> str:
    """The site's own choice of those that the task knows, or the first."""
    if encoder is not None and encoder not in setup.encoders:
        raise UserError(f"--encoder {encoder}: the task knows {', '.join(setup.encoders)}")
    return encoder or next(iter(setup.encoders))


class SiteTraining(Rounds):
    """One site's rounds; its page shows what it can do alone, on the images that it held out."""

    encoder: str
    upload: Upload

    @staticmethod
    def prepare(setup: Setup, images: SiteImages, options: SiteOptions) -> SiteTraining:
        task = setup.task
        train, test = images.train, images.held_out
        if not len(test):
            held = f"none of {len(train):,} images is held out"
            raise UserError(f"site {options.name}: {held}; raise --holdout")
        device = choose_device(options.device)
        small = max(task.facts.shape[1:]) <= SMALL_IMAGE
        threads = choose_threads(options.threads, small)
        config = setup.config.replace_general(device=str(device), threads=threads).replace_train(
            precision=working_precision(setup.config.train.precision, device),
            checkpoint_every=setup.config.train.checkpoint_every or 1,
        )
        dataset = Dataset(config.data.name, train, test, list(task.class_names), task.facts)
        everything = np.arange(len(train))
        partition = Partition([everything], everything[:0], everything[:0])
        setup = Setup(setup.task, config)
        training = SiteTraining(setup, dataset, partition, device, [options.name])
        training.encoder = chosen_encoder(setup, options.encoder)
        return training

    @property
    def site(self) -> Site:
        (site,) = self.engine.sites
        return site

    def open(self) -> Engine:
        store = Shard.whole(self.dataset.train, self.device).store
        self.held_out = Shard.whole(self.dataset.test, self.device)
        places = self.partition.clients
        self.engine = InProcess(
            self.setup, places, store, self.held_out, self.device, self.sites, self.encoder
        )
        return self.engine

    def warnings(self) -> Iterator[Warned]:
        """A real site need not hold every class of the task."""
        return untested_classes(self.dataset)

    def evaluate(self, engine: Engine) -> Outcome:
        site = self.site
        if not site.trainer.trains:
            return Outcome(None)
        scores, labels = site.scores(self.held_out)
        alone = {site.name: scores.argmax(dim=1)}
        return Outcome(Evaluation(labels, {ALONE: scores}, alone))

    def close(self, engine: Engine) -> None:
        """Make the upload, still on the run's own number of threads."""
        self.upload = self.site.upload()
        engine.close()

    def finish(self, folder: RunFolder, outcome: Outcome) -> dict[str, Any]:
        """Keep the upload, complete, with the run; it can be sent again, also with less of it."""
        data = self.upload.to_bytes()
        folder.uploads.mkdir(exist_ok=True)
        write_whole(folder.upload(0), data)
        return {"upload_bytes": [len(data)]}

    def stamp(self, images: SiteImages) -> str:
        """Names a training: the task, the site, its encoder, its images."""
        content = {
            "task": self.task.hash,
            "site": self.sites[0],
            "encoder": self.encoder,
            "threads": self.config.general.threads,
            "device": self.config.general.device,
        }
        splits = (images.train, images.held_out)
        parts = [array for split in splits for array in (split.images, split.labels)]
        return digest(content, {str(n): torch.from_numpy(array) for n, array in enumerate(parts)})


@dataclass(frozen=True)
class Trained:
    """The run, which stays at the site; what leaves it; files that were left out."""

    run: Run
    upload: Upload
    bad: Sequence[tuple[Path, str]]


def site_upload(
    task: Task, options: SiteOptions, folder: Path, listeners: Sequence[Listener] = ()
) -> Trained:
    """Train in a folder, or resume there."""
    setup = Setup.of(task, options.model)
    images = sound_images(setup, options)
    training = SiteTraining.prepare(setup, images, options)
    place = RunFolder(folder)
    place.path.mkdir(parents=True, exist_ok=True)
    with locked(place.path):
        refuse_another(place.path / "training", training.stamp(images), folder)
        run = read_run(place.path, trust=True) if place.config.is_file() else None
        if run is not None and not run.unfinished:
            try:
                (upload,) = uploads_of(run)
            except UserError as error:
                raise UserError(f"{folder}: {error}; remove it and train again") from None
        else:
            try:
                run = record(place, training, listeners)
            except KeyboardInterrupt:
                raise KeyboardInterrupt from None  # the site's own command resumes it, `run` does not
            upload = training.upload
    least = training.config.upload.min_count
    return Trained(run, what_leaves(upload, run, options, least), images.bad)


def refuse_another(file: Path, named: str, folder: Path) -> None:
    """A folder holds one training, which can be resumed; another is refused."""
    if not file.is_file():
        write_whole(file, named)
    elif file.read_text() != named:
        raise UserError(
            f"{folder}: holds another training (of another task, site, encoder or other images);"
            " name a new --out, or remove it"
        )


def what_leaves(upload: Upload, run: Run, options: SiteOptions, least: int) -> Upload:
    """What leaves the site: of its rounds nothing unless it wants to.

    With counts `large` alone, classes of fewer than the `least` samples are not counted.
    """
    counts = upload.class_counts
    if options.counts == LARGE:
        counts = counts * (counts >= least)
    records = [each for own in run.clients.values() for each in own] if options.telemetry else []
    return replace(upload, class_counts=counts, telemetry=tuple(map(ClientRound.from_record, records)))


def rehearse(task: Task, train: Split, options: SiteOptions) -> tuple[Upload, float]:
    """What an upload will look like after a short round, and how long the training will take here."""
    setup = Setup.of(task, options.model)
    wanted, device = setup.config.train, choose_device("auto")
    few = min(len(train), REHEARSED * wanted.batch)
    site = site_of(setup, options, Split(train.images[:few], train.labels[:few]), device)
    if not site.trainer.trains:
        return site.upload(), 0.0
    started = time.perf_counter()
    site.train_round(0)
    seconds = time.perf_counter() - started
    return site.upload(), seconds * wanted.rounds * len(train) / few


def describe_site(
    task: Task, request: Request, options: SiteOptions
) -> tuple[Description, Sequence[tuple[Path, str]]]:
    """The second exchange: the site's sums under everybody's encoders, and files that were left out."""
    if request.task != task.hash:
        raise UserError("this request belongs to another task")
    setup = Setup.of(task, options.model)
    if exchanges(task.needs) == 1:
        raise UserError(f"fusion={','.join(setup.config.fusion)}: the task has no second exchange")
    for network, _ in request.encoders.values():
        if network and network not in setup.encoders:
            raise UserError(f"this request is of {network[:80]}, which the task does not know")
    images = sound_images(setup, options)
    site = site_of(setup, options, images.train, choose_device(options.device))
    for network, weights in request.encoders.values():
        site.trainer.runners[network].network.check(weights)
    return replace(site.describe(request), request=request.hash), images.bad


def site_of(setup: Setup, options: SiteOptions, train: Split, device: torch.device) -> Site:
    trainer = Trainer(setup, device, encoder=chosen_encoder(setup, options.encoder))
    return Site(trainer, train, options.name)
