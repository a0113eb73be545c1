"""Every fusion on a finished run, from its uploads: nothing is trained again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from anchorfl.config import Config, flatten, resolve
from anchorfl.costs import Cost, costs_of
from anchorfl.data.dataset import ImageStore, load_dataset
from anchorfl.devices import choose_device
from anchorfl.errors import UserError
from anchorfl.evaluation import Evaluation, evaluate, fuse
from anchorfl.fusion import FUSIONS, Fusion
from anchorfl.runfolder import RunFolder
from anchorfl.task import Task
from anchorfl.training import Trainer
from anchorfl.upload import Upload, unsaid


@dataclass(frozen=True)
class Refused:
    """What the fusions of a run's uploads name its test images, and what could not be tried."""

    evaluation: Evaluation
    owners: Tensor
    costs: Mapping[str, Cost]
    missing: Mapping[str, str]

    def oracle(self) -> float:
        """Ask the client that holds most of the true class, through its own prototypes."""
        return self.evaluation.share_right(self._named_by_owner())

    def gaps(self, fusion: str) -> tuple[float, float]:
        """Shares of images that the owner names rightly and the fusion does not.

        First those given to a class of the same owner, then those given to another client's.
        """
        truth, named = self.evaluation.labels, self.evaluation.fused[fusion]
        lost = (named != truth) & (self._named_by_owner() == truth)
        same = self.owners[named] == self.owners[truth]
        return float((lost & same).double().mean()), float((lost & ~same).double().mean())

    def _named_by_owner(self) -> Tensor:
        clients = torch.stack(list(self.evaluation.local.values()))
        position = {client: row for row, client in enumerate(self.evaluation.local)}
        rows = torch.tensor([position[int(owner)] for owner in self.owners])
        return clients[rows[self.evaluation.labels], torch.arange(len(self.evaluation.labels))]


def fuse_again(folder: Path, words: Mapping[str, object], every: bool) -> Refused:
    """Evaluate a finished run's uploads under its own fusions, under others, or under all."""
    place = RunFolder(folder)
    summary, stored = place.read_summary(), place.read_config()
    uploads = place.read_uploads(summary["upload_bytes"])
    config = with_words(stored, words)
    fusions = config.fusion
    if every:
        fusions = {name: fusions.get(name) or FUSIONS.get(name)() for name in FUSIONS.names()}
    missing = {name: why for name, fusion in fusions.items() if (why := lacking(fusion, uploads))}
    usable = {name: fusion for name, fusion in fusions.items() if name not in missing}
    if not usable:
        raise UserError("; ".join(f"fusion {name}: {why}" for name, why in missing.items()))
    device = choose_device(config.general.device)
    dataset = load_dataset(config.data)
    trainer = Trainer(Task.prepare(config, dataset.facts), device)
    for upload in uploads:
        trainer.network.check(upload.weights)
    here = [upload.on(device) for upload in uploads]
    test = ImageStore(dataset.test, device)
    fused = {name: fuse(trainer, fusion, here) for name, fusion in usable.items()}
    evaluation = evaluate(trainer, fused, here, test)
    costs = costs_of(trainer, usable, fused, here, test)
    counts = torch.stack([upload.class_counts for upload in uploads])
    owners = torch.tensor([upload.client for upload in uploads])[counts.argmax(dim=0)]
    return Refused(evaluation, owners, costs, missing)


def with_words(stored: Config, words: Mapping[str, object]) -> Config:
    """A run's settings, some of them said anew; a new choice of fusions forgets the old options."""
    for key, value in words.items():
        if key.partition(".")[0] != "fusion" and key not in ("device", "data.root"):
            raise UserError(f"{key}={value}: fuse takes fusion, fusion.NAME.OPTION, device, data.root")
    settings = flatten(stored.to_dict())
    if "fusion" in words:
        settings = {key: value for key, value in settings.items() if not key.startswith("fusion.")}
    method = str(settings.pop("method"))
    return resolve(method, {**settings, "device": "auto", **words})


def lacking(fusion: Fusion, uploads: list[Upload]) -> str | None:
    """Why these uploads cannot be fused so."""
    for need in fusion.needs:
        if not all(upload.has_said(need) for upload in uploads):
            return unsaid(need)
    return None
