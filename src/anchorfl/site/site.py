"""A site at the end of a wire: bytes of tasks and requests in, bytes of uploads out."""

from __future__ import annotations

import numpy as np
import torch

from anchorfl.compute import EagerStepper, Stepper
from anchorfl.data import ImageStore, Split
from anchorfl.errors import UserError
from anchorfl.models import public_name
from anchorfl.site.client import Client
from anchorfl.site.training import Trainer
from anchorfl.wire import Request, Task


class Site:
    """Has its own samples and what it was sent. What is not returned here does not leave it.

    `model` is the site's own code for an encoder that the task only names (`code:NAME`); a built-in
    one needs none.
    """

    def __init__(
        self,
        number: int,
        samples: Split,
        device: torch.device,
        model: str | None = None,
        stepper: Stepper | None = None,
    ) -> None:
        self.number, self.samples, self.device, self.model = number, samples, device, model
        self.stepper = stepper or EagerStepper()
        self.client: Client | None = None

    def receive(self, task: bytes) -> None:
        """The first task, or that of a later round."""
        arrived = Task.from_bytes(task, self.model)
        if self.client is not None:
            self.client.trainer.receive(arrived)
            self.client.receive(arrived)
            return
        encoder = public_name(arrived.config.model.name_of(self.number))
        trainer = Trainer(arrived.for_encoder(encoder), self.device, self.stepper)
        store = ImageStore(self.samples, self.device)
        own = np.arange(len(self.samples))
        self.client = Client(self.number, trainer, store, own, arrived.facts.classes)

    def train(self, number: int) -> bytes | None:
        """A round; what it reports of it, unless telemetry is switched off or nothing is trained."""
        client = self._settled()
        if not client.trainer.trains or client.halted:
            return None
        report = client.train_round(number, lambda samples: None)
        return report.to_bytes() if client.config.upload.telemetry else None

    def upload(self) -> bytes:
        return self._settled().upload().to_bytes()

    def describe(self, request: bytes) -> bytes:
        """The answer to a second exchange."""
        return self._settled().describe(Request.from_bytes(request)).to_bytes()

    def _settled(self) -> Client:
        if self.client is None:
            raise UserError("this site has received no task yet")
        return self.client
