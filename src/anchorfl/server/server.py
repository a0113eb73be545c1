"""The server: it admits what sites send, fuses it into a model, asks again, and sets the next task."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from functools import cached_property

import torch

from anchorfl.compute import choose_device
from anchorfl.config import Config
from anchorfl.data import DATASETS, Shard
from anchorfl.errors import UserError
from anchorfl.fusion import Fusion, ServerView, built_fusions
from anchorfl.measures import Evaluation
from anchorfl.messages import Description, Request, Task, Upload, complete
from anchorfl.methods import METHODS
from anchorfl.model import Card, Familiarity, FusedModel, describer_in
from anchorfl.nn import Runners
from anchorfl.prepare import Setup, described_width
from anchorfl.server.admission import Admission, Refusal
from anchorfl.server.costs import Cost, costs_of
from anchorfl.server.evaluation import Fused, evaluate, fuse, server_view
from anchorfl.server.halves import SERVER_HALVES
from anchorfl.server.robust import Belief, believe
from anchorfl.statistics import exchanges
from anchorfl.tensors import Tensors


class Server:
    """Knows the task it sent and what came up for it, by site; it never sees a sample.

    `frozen` is the part of each network that uploads leave out, where it is not the task's.
    """

    def __init__(
        self,
        task: Task | Setup,
        device: torch.device | None = None,
        frozen: Mapping[str, Tensors] | None = None,
    ) -> None:
        self.setup = Setup.of(task) if isinstance(task, Task) else task
        self.task, self.config = self.setup.task, self.setup.config
        self.device = device or choose_device(self.config.general.device)
        self.frozen = frozen
        train, look = self.config.train, self.setup.look
        self.runners = Runners(self.setup.networks(), self.device, train.precision, train.graphs, look)
        half = METHODS.get(self.config.method).server
        self.half = None if half is None else SERVER_HALVES.get(half)()
        self.uploads: dict[str, Upload] = {}
        self.refused: list[Refusal] = []
        self.belief = Belief([])
        self.holdout = self.config.data.holdout if self.config.data.name == "sites" else None
        self.doubts: list[str] = []

    @cached_property
    def fusions(self) -> dict[str, Fusion]:
        return built_fusions(self.config.fusion)

    @cached_property
    def view(self) -> ServerView:
        return server_view(self.setup, self.runners)

    @cached_property
    def admission(self) -> Admission:
        width = described_width(self.config, self.task.start)
        return Admission(self.config, self.setup.facts, self.runners, width, self._frozen)

    @property
    def exchanges(self) -> int:
        return exchanges(self.config.needs)

    def receive(self, message: Upload | bytes) -> Refusal | None:
        """Admit an upload under its site's name, or say why not; bytes are parsed here, once."""
        try:
            if isinstance(message, bytes):
                self.admission.refuse_large(len(message))
                message = Upload.from_bytes(message)
            found = self.admission.admit(message, self.task.hash, self.uploads)
        except UserError as error:
            found = Refusal(str(error))
        if isinstance(found, Refusal):
            self.refused.append(found)
            return found
        self.uploads = dict(sorted({**self.uploads, found.site: found}.items(), key=in_order))
        return None

    def hold(self, uploads: Iterable[Upload]) -> None:
        """Those of sites in this process, in their order, in the place of all earlier ones."""
        self.uploads = {upload.site: upload for upload in uploads}

    def admitted_again(self, uploads: Sequence[Upload], config: Config) -> list[Upload | Refusal]:
        """Uploads of a folder, answers to a second exchange among them, held to what asked for them."""
        held = replace(self.admission, config=config)
        found: list[Upload | Refusal] = []
        for upload in uploads:
            reason = held.doubt_in_network(upload)
            if reason is None:
                frozen = {upload.network: self._frozen(upload.network)}
                found += complete([upload], frozen, self.device)
            else:
                found.append(Refusal(reason, upload.site))
        whole = [each for each in found if isinstance(each, Upload)]
        widths = held.widths_of(whole)
        for number, each in enumerate(found):
            if isinstance(each, Upload):
                reason = held.doubt(each, exchanges(config.needs), widths)
                found[number] = each if reason is None else Refusal(reason, each.site)
        self.hold(each for each in found if isinstance(each, Upload))
        return found

    def require_enough(self, reasons: Sequence[str] = (), tried: int = 0) -> None:
        """UserError, with every refusal first, where fewer sites are here than must be."""
        least = max(self.config.server.min_sites, 1)
        if len(self.uploads) < least:
            tried = tried or len(self.uploads) + len(self.refused)
            few = f"{len(self.uploads)} of {tried} uploads are admitted, fewer than"
            found = reasons or map(str, self.refused)
            raise UserError("; ".join([*found, f"{few} server.min_sites={least}"]))

    def _frozen(self, network: str) -> Tensors:
        if self.frozen is not None:
            return self.frozen.get(network, {})
        names = self.runners[network].network.frozen_names()
        weights = self.setup.weights_of(network) if names else {}
        return {name: value for name, value in weights.items() if name in names}

    def request(self) -> Request | None:
        """What goes down in a second exchange, where a fusion wants one."""
        if self.exchanges == 1:
            return None
        encoders = {site: upload.encoder for site, upload in self.uploads.items()}
        return Request(encoders, self.task.hash)

    def answer(self, descriptions: Sequence[Description]) -> None:
        """Take over what sites in this process answered to the request."""
        answers = {each.site: each for each in descriptions}
        if len(answers) < len(descriptions):
            raise UserError("a site has answered the second exchange twice")
        for site, upload in self.uploads.items():
            if site not in answers or answers[site].task != self.task.hash:
                raise UserError(f"{site} has not answered the second exchange")
            own = {name: value.to(self.device) for name, value in answers[site].statistics.items()}
            self.uploads[site] = replace(upload, statistics={**upload.statistics, **own})

    def receive_answers(self, descriptions: Sequence[Description]) -> None:
        """The same of sites elsewhere: to this request, and held to what an upload is held to."""
        request = self.request()
        for each in descriptions:
            if request is None or each.request != request.hash:
                raise UserError(
                    f"the answer of {each.site} is to another request than that of"
                    f" {', '.join(self.uploads)}; ask again with server describe"
                )
        self.answer(descriptions)
        self.admission.refuse_descriptions(list(self.uploads.values()), descriptions)

    def fuse_all(self, names: Iterable[str] | None = None) -> dict[str, Fused]:
        """Every fusion of the uploads, or some."""
        uploads = list(self.uploads.values())
        belief = believe(self.config.server.robust, uploads, self.config.upload.min_count)
        self.belief, self.doubts = belief, belief.doubts
        chosen = {name: self.fusions[name] for name in names or self.fusions}
        return fuse(chosen, belief, self.runners, self.view)

    def fuse(self) -> FusedModel:
        """The model of the first fusion."""
        name = next(iter(self.fusions))
        return self.model(name, self.fuse_all([name])[name])

    def evaluate(self, fused: Mapping[str, Fused], images: Shard) -> Evaluation:
        return evaluate(fused, list(self.uploads.values()), self.runners, images)

    def costs(self, fused: Mapping[str, Fused]) -> dict[str, Cost]:
        uploads, pictures = list(self.uploads.values()), self.view.pictures()
        return costs_of(self.fusions, fused, uploads, self.runners, pictures)

    @torch.no_grad()
    def model(self, name: str, fused: Fused, temperature: float | None = None) -> FusedModel:
        """A fusion as a module, in fp32 on the CPU; `temperature` is what held-out data want."""
        fusion, config = self.fusions[name], self.config
        if fusion.transductive:
            raise UserError(f"fusion {name} scores an image by the others beside it: it makes no model")
        blank = {each.name: self.setup.blank(each.name) for each in fused.encoders}
        networks = [
            deepcopy(blank[each.name]).fill({key: value.cpu() for key, value in each.weights.items()})
            for each in fused.encoders
        ]
        start, terms = self.task.start, DATASETS.get(config.data.name).terms
        card = Card(
            models=[each.name for each in fused.encoders],
            facts=self.setup.facts,
            class_names=list(self.task.class_names),
            temperature=fusion.score_temperature if temperature is None else temperature,
            method=config.method,
            fusion=name,
            student=next(iter(self.setup.encoders)),
            trained_on=config.data.name,
            terms=terms,
            start=None if start is None else start.hash,
            zoom=self.setup.look.zoom,
            mirrored=self.setup.look.mirrored,
            holdout=self.holdout,
        )
        head = deepcopy(fused.head).cpu()
        return FusedModel(networks, head, card, self._familiarity() if describer_in(head) else None)

    def _familiarity(self) -> Familiarity | None:
        uploads = self.belief.uploads
        if not uploads or not all(upload.contains("sketch_moments") for upload in uploads):
            return None
        return Familiarity.of(self.view.sums(uploads))

    def next_task(self) -> Task | None:
        """The next round's task, which every site may upload for again.

        None where nothing goes down again: the method is one-shot.
        """
        if self.half is None:
            return None
        self.task = self.half.step(self.task, list(self.uploads.values()))
        self.uploads, self.refused = {}, []
        return self.task


def in_order(entry: tuple[str, Upload]) -> tuple[int, str]:
    """Names by their letters; the numbers of simulated clients by size."""
    name = entry[0]
    return (len(name) if name.isdecimal() else 0, name)
