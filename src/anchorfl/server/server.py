"""The server: a function of uploads. It fuses, evaluates, asks again, and sets the next task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from anchorfl.data import ImageStore
from anchorfl.errors import UserError
from anchorfl.registry import METHODS, SERVER_HALVES
from anchorfl.server.admission import admit
from anchorfl.server.costs import Cost, costs_of
from anchorfl.server.evaluation import Evaluation, Fused, evaluate, fuse, runners_for, server_view
from anchorfl.tensors import Tensors
from anchorfl.wire import Description, Request, Task, Upload, complete


class Server:
    """Knows the task it sent and what came up for it; it never sees a sample of a site."""

    def __init__(self, task: Task, device: torch.device) -> None:
        self.task, self.config, self.device = task, task.config, device
        self.first = task
        self.runners = runners_for(self.config, task.facts, device)
        self.view = server_view(self.config, task.facts, self.runners)
        half = METHODS.get(self.config.method).server
        self.half = None if half is None else SERVER_HALVES.get(half)()

    def receive(self, messages: Sequence[bytes]) -> list[Upload]:
        """Uploads out of bytes, admitted, complete, on the server's device, in the clients' order."""
        uploads = sorted((Upload.from_bytes(data) for data in messages), key=lambda each: each.client)
        for upload in uploads:
            if upload.task != self.task.hash:
                raise UserError(f"the upload of client {upload.client} answers another task")
        networks = {upload.network for upload in uploads if upload.network in self.runners.names}
        frozen = {name: self._frozen(name) for name in networks}
        whole = complete(uploads, frozen, self.device)
        admit(whole, self.runners)
        return whole

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
        return [
            replace(upload, statistics=upload.statistics | answers[upload.client]) for upload in uploads
        ]

    def fuse(self, uploads: Sequence[Upload]) -> dict[str, Fused]:
        admit(uploads, self.runners)
        return fuse(self.config.fusion, uploads, self.runners, self.view)

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
