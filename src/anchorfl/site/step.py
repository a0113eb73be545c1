"""One training step: a function of a flat state, a batch, and scalars as tensors."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

import torch
from torch import Tensor, nn

from anchorfl.compute import Batch, EagerStepper, Stepper
from anchorfl.data import UNCHANGED, augmentation_for
from anchorfl.describe import Describer
from anchorfl.messages import Task
from anchorfl.methods import METHODS
from anchorfl.nn import BatchNorm, Runners, averaging
from anchorfl.objective import BASE_TERMS, ClientFacts, Losses, Views
from anchorfl.prepare import Setup
from anchorfl.site.optimizer import clip, descend, groups, trained
from anchorfl.tensors import Tensors, prefixed, section


class Trainer:
    """What the training steps of all clients share: everything a Task fixes, and no client's data.

    A client's state is a flat dict: `weights/`, `buffers/`, `balance/`, `steps`, and `momentum/` for
    every tensor that is trained, which are those that require a gradient. How steps are carried out
    is the stepper's business.
    """

    def __init__(
        self,
        setup: Setup,
        device: torch.device,
        stepper: Stepper | None = None,
        encoder: str | None = None,
    ) -> None:
        self.setup, self.config, self.device = setup, setup.config, device
        self.task, self.encoder = setup.task, encoder or setup.task.encoder
        train, data = self.config.train, self.config.data
        look = setup.look
        self.runners = Runners(setup.networks(), device, train.precision, train.graphs, look)
        self.runner = self.runners[self.encoder]
        self.network = self.runner.network
        self.stepper = stepper or EagerStepper()
        target = setup.target_of(self.network, self.encoder)
        self.target = None if target is None else target.to(device, copy=True)
        shape = setup.facts.shape
        self.augmentation = augmentation_for(shape, bool(data.flip), data.least_crop)
        if not train.augment:
            self.augmentation = UNCHANGED
        method = METHODS.get(self.config.method)
        self.trains = method.trains
        self.terms = {name: BASE_TERMS.get(name) for name in method.base_terms}

    @cached_property
    def frozen_parts(self) -> list[nn.Module]:
        return self.network.frozen_parts()

    @cached_property
    def moving_norms(self) -> list[BatchNorm]:
        """Those whose statistics training moves."""
        frozen = {id(module) for part in self.frozen_parts for module in part.modules()}
        return [norm for norm in self.runner.norms.values() if id(norm) not in frozen]

    @cached_property
    def frozen(self) -> Tensors:
        """The part of the network that no training changes, as the task fixes it."""
        names = self.network.frozen_names()
        weights = self.setup.weights_of(self.encoder) if names else {}
        return {name: weights[name].to(self.device) for name in weights if name in names}

    @cached_property
    def describer(self) -> Describer:
        """The fixed map of images that some fusions share, the same for every client."""
        return self.setup.describer().to(self.device)

    def receive(self, task: Task) -> None:
        """A later task of a method of many rounds; what steps have recorded stays in its place."""
        if task.target is not None and self.target is not None:
            self.target.copy_(task.target)

    @property
    def aligned(self) -> bool:
        return self.target is not None

    def initial_state(self, facts: ClientFacts) -> Tensors:
        """The common start, and the balance's own for this client."""
        start = {
            **prefixed("weights", dict(self.network.named_parameters())),
            **prefixed("buffers", persistent_buffers(self.network)),
            **prefixed("balance", self.config.align.init(facts)),
            "steps": torch.zeros((), dtype=torch.int64),
        }
        state = {
            name: value.detach().to(self.device, copy=True).requires_grad_(value.requires_grad)
            for name, value in start.items()
        }
        momentum = {name: torch.zeros_like(value) for name, value in trained(state).items()}
        return {**state, **prefixed("momentum", momentum)}

    def losses(self, state: Tensors, batch: Batch) -> Losses:
        """B and A on two augmented views of a batch (A is 0 where the method aligns nothing)."""
        count = len(batch.draws)
        images = self.augmentation.apply(batch.images, batch.draws, self.runner.kernels)
        labels = batch.labels.repeat(count)
        padding: Tensors = {}
        sample_weights = torch.ones(len(labels), device=self.device)
        if batch.weights is not None:
            sample_weights = batch.weights.repeat(count)
            padding = {f"{name}.sample_weights": sample_weights for name in self.runner.norms}
        weights = section(state, "weights")
        encoder = {**weights, **section(state, "buffers"), **padding}
        features = self.runner.encode(encoder, images)
        views = Views(features, weights["prototypes"], labels, sample_weights)
        terms = {name: term.loss(views) for name, term in self.terms.items()}
        base = torch.stack(list(terms.values())).sum()
        align = base.new_zeros(())
        if self.config.target is not None and self.target is not None:
            align = self.config.target.loss(views, self.target)
        return Losses(base, align, terms.get("classification", base))

    def step(self, state: Tensors, batch: Batch, lr: Tensor, anneal: Tensor) -> Tensors:
        """Move the state by one step of clipped SGD; returns what is averaged over a round."""
        self.network.train()
        for part in self.frozen_parts:
            part.eval()
        losses = self.losses(state, batch)
        loss, kept = self.config.align.loss(losses, section(state, "balance"), anneal)
        parameters = trained(state)
        values = torch.autograd.grad(
            loss, list(parameters.values()), allow_unused=True, materialize_grads=True
        )
        gradients = groups(dict(zip(parameters, values, strict=True)))
        with torch.no_grad():
            clipping = clip(gradients, self.config.train)
            descend(state, gradients, lr, self.config)
            for name, value in kept.items():
                state[f"balance/{name}"].copy_(value)
            state["steps"] += 1
        measured = {f"{name}_loss": value.detach() for name, value in losses._asdict().items()}
        return {**measured, **clipping}

    @torch.no_grad()
    def recomputed_statistics(self, state: Tensors, batches: Iterable[Tensor]) -> Tensors:
        """BatchNorm statistics of the given images as the trained weights see them, whole, unaugmented.

        The running ones lag behind the weights and were collected on augmented views.
        """
        buffers = {name: value.clone() for name, value in section(state, "buffers").items()}
        for number, images in enumerate(batches):
            with averaging(self.network, self.moving_norms, number):
                encoder = {**section(state, "weights"), **buffers}
                self.runner.encode(encoder, images.float() / 255)
        return buffers


def persistent_buffers(module: nn.Module) -> Tensors:
    kept = module.state_dict().keys()
    return {name: value for name, value in module.named_buffers() if name in kept}
