"""Every fusion on a finished run, from its uploads: nothing is trained again."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from anchorfl.compute import choose_device, using_threads
from anchorfl.config import Config
from anchorfl.data import ImageFacts, Shard
from anchorfl.errors import UserError
from anchorfl.fusion import FUSIONS
from anchorfl.loop import frozen_of, start_of, uploads_of
from anchorfl.measures import Evaluation
from anchorfl.messages import Task, Upload
from anchorfl.model import FusedModel
from anchorfl.prepare import Setup, shared_settings
from anchorfl.runs import Run
from anchorfl.server import Cost, Fused, Refusal, Server, what_is_lacking, without
from anchorfl.settings import flatten, import_named, resolve
from anchorfl.simulate.run_data import data_of


@dataclass(frozen=True)
class FusedAgain:
    """What the fusions of a run's uploads give, and what could not be tried.

    `evaluation` is on the run's test images; None for a run of real sites, whose images are not here.
    """

    server: Server
    fused: Mapping[str, Fused]
    missing: Mapping[str, str]
    evaluation: Evaluation | None
    costs: Mapping[str, Cost]
    temperatures: Mapping[str, float]
    """The share of real sites' images that nobody trained on."""

    @property
    def uploads(self) -> list[Upload]:
        return list(self.server.uploads.values())

    def model(self) -> FusedModel:
        """That of the first fusion."""
        name = next(iter(self.server.config.fusion))
        if name in self.missing:
            raise UserError(f"fusion {name}: {self.missing[name]}")
        return self.server.model(name, self.fused[name], self.temperatures.get(name))

    def oracle(self, evaluation: Evaluation) -> float:
        """Ask the site that holds most of the true class, through its own prototypes."""
        return evaluation.share_right(self._by_owner(evaluation))

    def gaps(self, evaluation: Evaluation, fusion: str) -> tuple[float, float]:
        """Shares of images that the owner gets right and the fusion does not.

        First those given to a class of the same owner, then those given to another site's. Where no
        site has a model of its own, there is nothing to compare with.
        """
        if not evaluation.local:
            return 0.0, 0.0
        truth, predicted = evaluation.labels, evaluation.fused[fusion]
        lost = (predicted != truth) & (self._by_owner(evaluation) == truth)
        same = self._owners[predicted] == self._owners[truth]
        return float((lost & same).double().mean()), float((lost & ~same).double().mean())

    @property
    def _owners(self) -> Tensor:
        """By class, the place of the site that holds most of it."""
        return torch.stack([upload.class_counts for upload in self.uploads]).cpu().argmax(dim=0)

    def _by_owner(self, evaluation: Evaluation) -> Tensor:
        places = {site: row for row, site in enumerate(evaluation.local)}
        rows = torch.tensor([places.get(upload.site, 0) for upload in self.uploads])
        chosen = rows[self._owners][evaluation.labels]
        predicted = torch.stack(list(evaluation.local.values()))
        return predicted[chosen, torch.arange(len(evaluation.labels))]


def fuse_again(
    run: Run,
    words: Mapping[str, object],
    every: bool,
    gone: Collection[str] = (),
    late: Sequence[Path] = (),
) -> FusedAgain:
    """A finished run's uploads under its own fusions, under others, or under all.

    Sites that are `gone` are left out as if they had never been there; uploads that came `late` are
    admitted and fused as if they had been there in time.
    """
    import_named({key: value for key, value in words.items() if key == "fusion"})
    config = with_words(run.config, words)
    if "model.name" not in words:
        run.vouched(config)
    with using_threads(config.general.threads or torch.get_num_threads()):
        server = server_of(run, config)
        if gone:
            server.hold(without(list(server.uploads.values()), gone))
        for file in late:
            add_late(server, file)
        names = FUSIONS.names() if every else list(config.fusion)
        fusions = {name: server.fusions.get(name) or FUSIONS.get(name)() for name in names}
        server.fusions = fusions
        missing = what_is_lacking(fusions, list(server.uploads.values()))
        usable = [name for name in fusions if name not in missing]
        if not usable:
            raise UserError("; ".join(f"fusion {name}: {why}" for name, why in missing.items()))
        fused = server.fuse_all(usable)
        evaluation = None
        if not run.of_real_sites:
            dataset = data_of(run, str(words["data.root"]) if "data.root" in words else None)
            evaluation = server.evaluate(fused, Shard.whole(dataset.test, server.device))
        costs = server.costs(fused)
    temperatures = run.summary.temperature or {}
    return FusedAgain(server, fused, missing, evaluation, costs, temperatures)


def server_of(run: Run, config: Config) -> Server:
    """With a run's uploads, admitted again: a folder may be somebody else's."""
    uploads, facts = uploads_of(run), facts_of(run)
    names = tuple(run.summary.class_names or ())
    task = Task(
        shared_settings(config),
        facts,
        {},
        config.needs,
        class_names=names,
        first=uploads[0].task,
        start=start_of(run),
    )
    server = Server(Setup(task, config), choose_device(config.general.device), frozen_of(run))
    if run.of_real_sites:
        server.holdout = config.data.holdout
    for number, upload in enumerate(server.admitted_again(uploads, run.config)):
        if isinstance(upload, Refusal):
            raise UserError(f"{run.files.upload(run.sent[number])}: {upload.reason}")
    return server


def add_late(server: Server, file: Path) -> None:
    try:
        data = file.read_bytes()
    except OSError as error:
        raise UserError(f"--add {file}: {error.strerror}") from None
    refusal = server.receive(data)
    if refusal is not None:
        raise UserError(f"--add {file}: {refusal.reason}")


def facts_of(run: Run) -> ImageFacts:
    """The shape of a run's images, and how many classes."""
    try:
        return ImageFacts.from_json(run.summary.images or {})
    except (KeyError, TypeError, ValueError):
        raise UserError(f"{run.files.summary}: is corrupt (no shape of images)") from None


def with_words(stored: Config, words: Mapping[str, object]) -> Config:
    """A run's settings, some of them given anew; a new choice of fusions forgets the old options."""
    for key, value in words.items():
        if key.partition(".")[0] != "fusion" and key not in ("device", "data.root", "model.name"):
            taken = "fusion, fusion.NAME.OPTION, device, data.root, model.name"
            raise UserError(f"{key}={value}: fuse takes {taken}")
    settings = flatten(stored.to_dict())
    if "fusion" in words:
        settings = {key: value for key, value in settings.items() if not key.startswith("fusion.")}
    method = str(settings.pop("method"))
    return resolve(method, {**settings, "device": "auto", **words})
