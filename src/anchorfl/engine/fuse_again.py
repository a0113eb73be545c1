"""Every fusion on a finished run, from its uploads: nothing is trained again."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from anchorfl.compute import choose_device, using_threads
from anchorfl.config import Config
from anchorfl.data import ImageStore
from anchorfl.engine.run_data import data_of
from anchorfl.engine.stored_uploads import start_of, uploads_of
from anchorfl.errors import UserError
from anchorfl.registry import FUSIONS
from anchorfl.runs import Run
from anchorfl.server import (
    Admission,
    Cost,
    Evaluation,
    Refusal,
    believed,
    costs_of,
    evaluate,
    fuse,
    runners_for,
    server_view,
    what_is_lacking,
    without,
)
from anchorfl.settings import flatten, import_named, resolve
from anchorfl.wire import Upload, described_width


@dataclass(frozen=True)
class FusedAgain:
    """What the fusions of a run's uploads predict for its test images, and what could not be tried."""

    evaluation: Evaluation
    owners: Tensor
    costs: Mapping[str, Cost]
    missing: Mapping[str, str]
    config: Config
    uploads: Sequence[Upload]

    def oracle(self) -> float:
        """Ask the client that holds most of the true class, through its own prototypes."""
        return self.evaluation.share_right(self._by_owner())

    def gaps(self, fusion: str) -> tuple[float, float]:
        """Shares of images that the owner gets right and the fusion does not.

        First those given to a class of the same owner, then those given to another client's. Where
        no client has a model of its own, there is nothing to compare with.
        """
        if not self.evaluation.local:
            return 0.0, 0.0
        truth, predicted = self.evaluation.labels, self.evaluation.fused[fusion]
        lost = (predicted != truth) & (self._by_owner() == truth)
        same = self.owners[predicted] == self.owners[truth]
        return float((lost & same).double().mean()), float((lost & ~same).double().mean())

    def _by_owner(self) -> Tensor:
        clients = torch.stack(list(self.evaluation.local.values()))
        position = {client: row for row, client in enumerate(self.evaluation.local)}
        rows = torch.tensor([position[int(owner)] for owner in self.owners])
        return clients[rows[self.evaluation.labels], torch.arange(len(self.evaluation.labels))]


def fuse_again(
    run: Run,
    words: Mapping[str, object],
    every: bool,
    gone: Collection[int] = (),
    late: Sequence[Path] = (),
) -> FusedAgain:
    """Evaluate a finished run's uploads under its own fusions, under others, or under all.

    Sites that are `gone` are left out as if they had never been there; uploads that came `late` are
    admitted and fused as if they had been there in time.
    """
    import_named({key: value for key, value in words.items() if key == "fusion"})
    config = with_words(run.config, words)
    if "model.name" not in words:
        run.vouched(config)
    with using_threads(config.general.threads or torch.get_num_threads()):
        return fuse_by(run, config, words, every, gone, late)


def fuse_by(
    run: Run,
    config: Config,
    words: Mapping[str, object],
    every: bool,
    gone: Collection[int],
    late: Sequence[Path],
) -> FusedAgain:
    """On the run's own number of threads."""
    device = choose_device(config.general.device)
    uploads = uploads_of(run, device)
    dataset = data_of(run, str(words["data.root"]) if "data.root" in words else None)
    runners = runners_for(config, dataset.facts, device)
    start = start_of(run)
    width = described_width(run.config, start)
    frozen = {upload.network: upload.frozen for upload in uploads}
    admission = Admission(run.config, dataset.facts, runners, width, lambda name: frozen.get(name, {}))
    refuse_doubtful(run, admission, uploads)
    if gone:
        uploads = without(uploads, gone)
    uploads = with_late(admission, uploads, late)
    fusions = config.fusion
    if every:
        fusions = {name: fusions.get(name) or FUSIONS.get(name)() for name in FUSIONS.names()}
    missing = what_is_lacking(fusions, uploads)
    usable = {name: fusion for name, fusion in fusions.items() if name not in missing}
    if not usable:
        raise UserError("; ".join(f"fusion {name}: {why}" for name, why in missing.items()))
    test = ImageStore(dataset.test, device)
    belief = believed(config, uploads)
    fused = fuse(usable, belief, runners, server_view(config, dataset.facts, runners, start))
    evaluation = evaluate(fused, uploads, runners, test)
    costs = costs_of(usable, fused, uploads, runners, test)
    counts = torch.stack([upload.class_counts for upload in uploads]).cpu()
    owners = torch.tensor([upload.client for upload in uploads])[counts.argmax(dim=0)]
    return FusedAgain(evaluation, owners, costs, missing, config, uploads)


def with_late(admission: Admission, uploads: Sequence[Upload], files: Sequence[Path]) -> list[Upload]:
    """The uploads and those in the files, in the order of sites, each held to what all are held to."""
    found = {upload.client: upload for upload in uploads}
    for file in files:
        try:
            data = file.read_bytes()
        except OSError as error:
            raise UserError(f"--add {file}: {error.strerror}") from None
        admitted = admission.admit(data, uploads[0].task, found)
        if isinstance(admitted, Refusal):
            raise UserError(f"--add {file}: {admitted.reason}")
        found[admitted.client] = admitted
    return [found[client] for client in sorted(found)]


def refuse_doubtful(run: Run, admission: Admission, uploads: Sequence[Upload]) -> None:
    """A folder may be somebody else's: its uploads are held to what a server holds them to."""
    reasons = {upload.client: admission.doubt_in_site(upload) for upload in uploads}
    widths = [] if any(reasons.values()) else admission.widths_of(uploads)
    for upload in uploads:
        reason = reasons[upload.client] or admission.doubt(upload, run.config.exchanges, widths)
        if reason is not None:
            raise UserError(f"{run.files.upload(upload.client)}: {reason}")


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
