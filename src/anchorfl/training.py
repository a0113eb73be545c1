"""One training step: a function of a flat state, a batch, and scalars as tensors."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

import torch
from torch import Tensor, nn
from torch.func import functional_call

from anchorfl.balance import ClientFacts, Losses
from anchorfl.batch import Batch
from anchorfl.data.augment import augmentation_for
from anchorfl.devices import can_fuse, set_precision, working_precision
from anchorfl.lanes import Lanes
from anchorfl.losses import align_loss, bank_contrast, base_terms
from anchorfl.methods import METHODS
from anchorfl.normalisation import averaging, batchnorms
from anchorfl.optimizer import clip, descend, groups, trained
from anchorfl.sketch import Sketch
from anchorfl.task import Task
from anchorfl.tensors import Tensors, prefixed, section

LAYOUT = torch.channels_last


class Trainer:
    """What the training steps of all clients share: everything a Task fixes, and no client's data.

    A client's state is a flat dict: `weights/`, `buffers/`, `balance/`, `steps`, and `momentum/` for
    every tensor that is trained, which are those that require a gradient.
    """

    def __init__(self, task: Task, device: torch.device) -> None:
        self.config, self.device, self.shape = task.config, device, task.facts.shape
        self.precision = working_precision(task.config.train.precision, device)
        set_precision(self.precision, device)
        self.network = task.network().to(device=device)
        self.network.to(memory_format=LAYOUT)  # type: ignore[call-overload]
        self.norms = batchnorms(self.network)
        self.fused = task.config.train.graphs and can_fuse(device)
        for norm in self.norms.values():
            norm.fused = self.fused
        self.anchors = None if task.anchors is None else task.anchors.to(device)
        self.bank = None if task.bank is None else task.bank.to(device)
        self.augmentation = augmentation_for(task.facts.shape, bool(task.config.data.flip))
        self.terms = METHODS.get(task.config.method).base_terms
        self.lanes = Lanes(self, task.config.train.graphs and device.type == "cuda")

    @cached_property
    def sketch(self) -> Sketch:
        """The fixed map of images that some fusions share, the same for every client."""
        return Sketch.shared(self.config, self.shape).to(self.device)

    @property
    def aligned(self) -> bool:
        return self.anchors is not None or self.bank is not None

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

    def encode(self, weights: Tensors, images: Tensor) -> Tensor:
        """Features of images in 0..1 under the given parameters and buffers, in working precision."""
        reduced = self.precision == "bf16"
        with torch.autocast(self.device.type, torch.bfloat16, enabled=reduced):
            features: Tensor = functional_call(self.network, weights, (images,))
        return features

    def losses(self, state: Tensors, batch: Batch) -> Losses:
        """B and A on two augmented views of a batch (A is 0 where the method aligns nothing)."""
        views = len(batch.draws)
        images = self.augmentation.apply(batch.images, batch.draws, self.fused)
        labels = batch.labels.repeat(views)
        padding: Tensors = {}
        sample_weights = torch.ones(len(labels), device=self.device)
        if batch.weights is not None:
            sample_weights = batch.weights.repeat(views)
            padding = {f"{name}.sample_weights": sample_weights for name in self.norms}
        weights = section(state, "weights")
        features = self.encode({**weights, **section(state, "buffers"), **padding}, images)
        prototypes = weights["prototypes"]
        terms = base_terms(self.terms, features, prototypes, labels, sample_weights)
        base = torch.stack(list(terms.values())).sum()
        align = base.new_zeros(())
        if self.anchors is not None:
            align = align_loss(prototypes, self.anchors, labels, sample_weights)
        elif self.bank is not None:
            align = bank_contrast(features, self.bank, sample_weights)
        return Losses(base, align, terms.get("classification", base))

    def step(self, state: Tensors, batch: Batch, lr: Tensor, anneal: Tensor) -> Tensors:
        """Move the state by one step of clipped SGD; returns what is averaged over a round."""
        self.network.train()
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
        """BatchNorm statistics of the given images as the trained weights see them, unaugmented.

        The running ones lag behind the weights and were collected on augmented views.
        """
        buffers = {name: value.clone() for name, value in section(state, "buffers").items()}
        for number, images in enumerate(batches):
            with averaging(self.network, number):
                self.encode({**section(state, "weights"), **buffers}, images.float() / 255)
        return buffers


def persistent_buffers(module: nn.Module) -> Tensors:
    kept = module.state_dict().keys()
    return {name: value for name, value in module.named_buffers() if name in kept}
