"""The server: a function of uploads. It fuses, evaluates, asks again, and sets the next task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from anchorfl.data import ImageStore
from anchorfl.errors import UserError
from anchorfl.registry import METHODS, SERVER_HALVES
from anchorfl.server.admission import Admission, Refusal
from anchorfl.server.costs import Cost, costs_of
from anchorfl.server.evaluation import (
    Evaluation,
    Fused,
    believed,
    evaluate,
    fuse,
    runners_for,
    server_view,
)
from anchorfl.tensors import Tensors
from anchorfl.wire import Description, Request, Task, Upload, described_width


class Server:
    """Knows the task it sent and what came up for it; it never sees a sample of a site."""

    def __init__(self, task: Task, device: torch.device) -> None:
        self.task, self.config, self.device = task, task.config, device
        self.first = task
        self.runners = runners_for(self.config, task.facts, device)
        self.view = server_view(self.config, task.facts, self.runners, task.start)
        half = METHODS.get(self.config.method).server
        self.half = None if half is None else SERVER_HALVES.get(half)()
        width = described_width(self.config, task.start)
        self.admission = Admission(self.config, task.facts, self.runners, width, self._frozen)
        self.refused: list[Refusal] = []
        self.doubts: list[str] = []

    def receive(self, messages: Sequence[bytes], replace_earlier: bool = False) -> list[Upload]:
        """Uploads out of bytes, admitted, complete, on the server's device, in the clients' order.

        What was not admitted stands in `refused`. A site's second upload is refused, or replaces the
        first. Too few are an error that names every reason.
        """
        admitted: dict[int, Upload] = {}
        self.refused = []
        for data in messages:
            found = self.admission.admit(data, self.task.hash, () if replace_earlier else admitted)
            if isinstance(found, Refusal):
                self.refused.append(found)
            else:
                admitted[found.client] = found
        if len(admitted) < self.config.server.min_sites:
            few = f"{len(admitted)} of {len(messages)} uploads are admitted, fewer than"
            wanted = f"server.min_sites={self.config.server.min_sites}"
            raise UserError("; ".join([f"{few} {wanted}", *map(str, self.refused)]))
        return [admitted[client] for client in sorted(admitted)]

    def _frozen(self, network: str) -> Tensors:
        task = self.first.for_encoder(network or self.first.encoder)
        names = self.runners[network].network.frozen_names()
        return {name: value for name, value in task.weights.items() if name in names}

    def request(self, uploads: Sequence[Upload]) -> Request | None:
        """What goes down in a second exchange, where a fusion wants one."""
        if self.config.exchanges == 1:
            return None
        return Request([upload.encoder for upload in uploads], self.task.hash)

    def with_descriptions(
        self, uploads: Sequence[Upload], descriptions: Sequence[Description]
    ) -> list[Upload]:
        """Uploads with what their sites answered to the request."""
        answers = {
            each.client: {name: value.to(self.device) for name, value in each.statistics.items()}
            for each in descriptions
        }
        if len(answers) < len(descriptions):
            raise UserError("a site has answered the second exchange twice")
        answered = {each.client for each in descriptions if each.task == self.task.hash}
        for upload in uploads:
            if upload.client not in answered:
                raise UserError(f"site {upload.client} has not answered the second exchange")
        return [
            replace(upload, statistics=upload.statistics | answers[upload.client]) for upload in uploads
        ]

    def receive_descriptions(
        self, uploads: Sequence[Upload], messages: Sequence[bytes]
    ) -> list[Upload]:
        """The same out of bytes, held to what an upload is held to."""
        descriptions = [Description.from_bytes(data) for data in messages]
        whole = self.with_descriptions(uploads, descriptions)
        self.admission.refuse_descriptions(whole, descriptions)
        return whole

    def fuse(self, uploads: Sequence[Upload]) -> dict[str, Fused]:
        belief = believed(self.config, uploads)
        self.doubts = belief.doubts
        return fuse(self.config.fusion, belief, self.runners, self.view)

    def evaluate(
        self,
        fused: Mapping[str, Fused],
        uploads: Sequence[Upload],
        store: ImageStore,
        index: Tensor | None = None,
    ) -> Evaluation:
        return evaluate(fused, uploads, self.runners, store, index)

    def costs(
        self, fused: Mapping[str, Fused], uploads: Sequence[Upload], store: ImageStore
    ) -> dict[str, Cost]:
        return costs_of(self.config.fusion, fused, uploads, self.runners, store)

    def step(self, uploads: Sequence[Upload]) -> Task | None:
        """The next round's task; None where nothing goes down again: the method is one-shot."""
        if self.half is None:
            return None
        self.task = self.half.step(self.task, uploads)
        return self.task
