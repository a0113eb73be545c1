"""A site: its own samples and the task it was sent, trained alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, replace

import torch
from torch import Tensor

from anchorfl.compute import (
    Batch,
    Steps,
    Stopwatch,
    choose_device,
    images_at_once,
    send,
    synchronise,
)
from anchorfl.data import Shard, Split, batch_count
from anchorfl.describe import factored
from anchorfl.events import ClientRound
from anchorfl.messages import Description, Request, Task, Upload
from anchorfl.objective import SCHEDULES, ClientFacts, Losses, Moment
from anchorfl.prepare import Setup
from anchorfl.randomness import generator, seeded
from anchorfl.site.step import Trainer
from anchorfl.statistics import STATISTICS, Samples
from anchorfl.tensors import Encoder, Tensors, prefixed, section

EXPLODED_LOSS = 1e6
"""Guessing gives a base loss of some twenty."""
OnEpoch = Callable[[int, Tensors, dict[str, list[float]]], None]
"""(local epoch, the client's state after it, every reading step by step)."""


class Site:
    """What is trained alone on its own samples. What `upload` and `describe` return is all that leaves.

    `task` is what it was sent; sites of one process may share a `Trainer` made of it, and one store of
    images. `number` is its place in records.
    """

    def __init__(
        self, task: Task | Trainer, samples: Split | Shard, name: str, number: int = 0
    ) -> None:
        if isinstance(task, Task):
            task = Trainer(Setup.of(task), choose_device("auto"))
        trainer = self.trainer = task
        self.samples = Shard.whole(samples, trainer.device) if isinstance(samples, Split) else samples
        self.name, self.number, self.config = name, number, trainer.config
        store = self.samples.store
        labels = store.labels[self.samples.index.to(store.index_device)]
        classes = trainer.setup.facts.classes
        self.class_counts = torch.bincount(labels, minlength=classes).cpu()
        held = self.class_counts > 0
        groups = {"prototype_norm_seen": held, "prototype_norm_unseen": ~held}
        self.class_groups = {
            name: classes.nonzero()[:, 0].to(trainer.device)
            for name, classes in groups.items()
            if classes.any()
        }
        self.batches = batch_count(len(self.samples), self.config.train.batch)
        facts = ClientFacts(self.class_counts, self.batches)
        self.state: Tensors = trainer.initial_state(facts) if trainer.trains else {}
        self.lasting: Tensors = {}
        self.halted = False

    def receive(self, task: Task) -> None:
        """Start the next round from a later task's weights, if any, and align to its target."""
        self.trainer.receive(task)
        own = {**section(self.state, "weights"), **section(self.state, "buffers")}
        with torch.no_grad():
            for name, value in task.weights.items():
                if name in own:
                    own[name].copy_(value)

    def checkpoint(self) -> Tensors:
        """All that a round leaves behind, in the CPU's memory: weights, momentum, sigmas, steps."""
        state = {name: value.detach().to("cpu", copy=True) for name, value in self.state.items()}
        return {**state, "halted": torch.tensor(self.halted)}

    def restore(self, saved: Tensors) -> None:
        """Go on from a checkpoint as if nothing had happened."""
        self.halted = bool(saved["halted"])
        self._put_back(saved)

    @torch.no_grad()
    def _put_back(self, saved: Tensors) -> None:
        for name, value in self.state.items():
            value.copy_(saved[name])

    def train(self) -> Iterator[ClientRound]:
        """All rounds, from that of the task on; what came of each stays at the site."""
        if self.trainer.trains:
            for number in range(self.trainer.task.round, self.config.train.rounds):
                if not self.halted:
                    yield self.train_round(number)

    def train_round(self, number: int, on_batch: Callable[[int], None] = lambda n: None) -> ClientRound:
        """`train.local_epochs` epochs."""
        return self.start_round(number, on_batch)()

    def start_round(
        self, number: int, on_batch: Callable[[int], None], on_epoch: OnEpoch | None = None
    ) -> Callable[[], ClientRound]:
        """Set a round going, and wait for nothing; what is returned reads how it went.

        `on_epoch` looks at the client's state after every local epoch, and at its steps' readings.
        A round that ends in a loss or weights that are not finite, or in a loss that exploded, is taken
        back, and the client halts: it trains no more and uploads what it had before.
        """
        options, trainer = self.config.train, self.trainer
        before = {name: value.detach().clone() for name, value in self.state.items()}
        if options.reset_optimizer:
            for momentum in section(self.state, "momentum").values():
                momentum.zero_()
        anneal = 1.0
        samples, largest = len(self.samples), -(-len(self.samples) // self.batches)
        own_steps = trainer.stepper.steps(trainer.step, self.number, self.state, samples, largest)
        with own_steps as steps:
            watch = Stopwatch(trainer.device)
            for local_epoch in range(options.local_epochs):
                epoch = number * options.local_epochs + local_epoch
                trail = steps.follow() if on_epoch else None
                anneal = self._train_epoch(epoch, steps, on_batch)
                if on_epoch and trail is not None:
                    on_epoch(local_epoch, steps.state, trail.readings())
            readings = self._readings(number, anneal, steps.finish())
            values = torch.stack([value.float() for value in readings.values()])
            watch.stop()

        def read() -> ClientRound:
            synchronise(trainer.device)
            read = dict(zip(readings, values.tolist(), strict=True))
            sizes = read.pop("weights"), read["base_loss"], read["align_loss"]
            if not math.isfinite(sum(sizes)) or read["base_loss"] > EXPLODED_LOSS:
                self.halted, read["diverged"] = True, 1.0
                self._put_back(before)
            return self._event(number, anneal, read, watch.seconds())

        return read

    def _train_epoch(self, epoch: int, steps: Steps, on_batch: Callable[[int], None]) -> float:
        """One pass over the client's samples; returns s."""
        options, device = self.config.train, self.trainer.device
        samples, total = len(self.samples), options.rounds * options.local_epochs
        count = self.batches
        order = torch.randperm(samples, generator=self._generator("order", epoch))
        index = send(self.samples.index[order], self.samples.store.index_device)
        draws = self.trainer.augmentation.draw(2 * samples, self._generator("augment", epoch))
        draws = send(draws.view(2, samples, -1), device)
        schedule = SCHEDULES.get(options.schedule)
        progress = [(epoch + step / count) / total for step in range(count)]
        rates = torch.tensor([options.lr * schedule(p) for p in progress])
        anneal = self.config.align.anneal(Moment(epoch, total, options.local_epochs))
        on_device = send(torch.cat([rates, torch.tensor([anneal])]), device)
        batches = zip(index.tensor_split(count), draws.tensor_split(count, dim=1), strict=True)
        with seeded(self.config.seed, "dropout", self.name, epoch, device):
            for step, (own, draw) in enumerate(batches):
                steps.take(Batch(*self.samples.store.take(own), draw), on_device[step], on_device[-1])
                on_batch(len(own))
        return anneal

    def _generator(self, purpose: str, epoch: int) -> torch.Generator:
        return generator(self.config.seed, purpose, self.name, epoch)

    @torch.no_grad()
    def _readings(self, number: int, anneal: float, sums: Tensors) -> Tensors:
        """A round's means, and the balance's readings of them and of the state it ended in."""
        seen = len(self.samples) * self.config.train.local_epochs
        means = {name: value / seen for name, value in sums.items()}
        losses = Losses(*(means[f"{name}_loss"] for name in Losses._fields))
        if number == 0:
            for name, value in self.config.align.after_first_round(losses).items():
                self.state[f"balance/{name}"].copy_(value)
        factor = torch.full((), anneal, device=self.trainer.device)
        balance = self.config.align.readings(losses, section(self.state, "balance"), factor)
        state = {**section(self.state, "weights"), **section(self.state, "buffers")}
        parts = [value.detach() for value in state.values() if value.numel()]
        size = torch.stack([value.abs().amax().float() for value in parts]).amax()
        return {**means, **balance, **self.prototype_norms(), "weights": size}

    def _event(self, number: int, anneal: float, read: dict[str, float], seconds: float) -> ClientRound:
        if not self.trainer.aligned:
            read.pop("align_loss")
        fixed = {item.name for item in fields(ClientRound)}
        return ClientRound(
            round=number,
            client=self.number,
            samples=len(self.samples),
            steps=self.batches * self.config.train.local_epochs,
            anneal=anneal if self.trainer.aligned else None,
            seconds=seconds,
            readings={name: read[name] for name in read if name not in fixed},
            **{name: read[name] for name in read if name in fixed},
        )

    def prototype_norms(self) -> Tensors:
        """Mean norm of the prototypes of the classes this client holds, and of the others."""
        norms = self.state["weights/prototypes"].norm(dim=1)
        return {name: norms[classes].mean() for name, classes in self.class_groups.items()}

    @torch.no_grad()
    def weights(self) -> Tensors:
        """The network as it is uploaded: not a copy, it changes with the next round."""
        buffers = section(self.state, "buffers")
        if self.config.upload.batchnorm == "recomputed" and self.trainer.moving_norms:
            images = (images for images, _ in self._own_batches())
            buffers = self.trainer.recomputed_statistics(self.state, images)
        network = {**section(self.state, "weights"), **buffers}
        return {name: value.detach() for name, value in network.items()}

    @torch.no_grad()
    def scores(self, images: Shard) -> tuple[Tensor, Tensor]:
        """What the site predicts alone, by its own prototypes; and the labels."""
        runners, encoder = self.trainer.runners, Encoder(self.trainer.encoder, self.weights())
        runners.evaluation_mode([encoder])
        scores, labels = [], []
        for some, own in images.batches(-(-len(images) // self._at_once)):
            features = runners.encode(encoder, some.float() / 255)
            scores.append((features @ encoder.weights["prototypes"].T).float().cpu())
            labels.append(own.cpu())
        return torch.cat(scores), torch.cat(labels)

    @torch.no_grad()
    def upload(self) -> Upload:
        """What leaves the site; statistics only where a fusion needs them."""
        task = self.trainer.task.hash
        if not self.trainer.trains:
            return Upload(self.name, self.class_counts, {}, self.statistics(1, []), task=task)
        frozen, network = self.trainer.frozen, self.trainer.encoder
        trained = {name: value for name, value in self.weights().items() if name not in frozen}
        counts = self.class_counts
        upload = Upload(self.name, counts, trained, network=network, task=task, frozen=frozen)
        return replace(upload, statistics=self.statistics(1, [upload.encoder]))

    def describe(self, request: Request) -> Description:
        """The second exchange: statistics under everybody's encoders.

        Who sends it elsewhere names the request, by its hash: `replace(answer, request=request.hash)`.
        """
        here = [
            Encoder(name, {key: value.to(self.trainer.device) for key, value in weights.items()})
            for name, weights in request.encoders.values()
        ]
        return Description(self.name, self.statistics(2, here), request.task, "")

    @torch.no_grad()
    def statistics(self, exchange: int, encoders: Sequence[Encoder]) -> Tensors:
        """Those that the run's fusions need in an exchange, in one pass over the client's samples.

        In the second exchange the encoders are everybody's.
        """
        every = {name: STATISTICS.get(name) for name in self.config.needs}
        needed = {name: each for name, each in every.items() if each.exchange == exchange}
        wanted = {name: each for name, each in needed.items() if not section(self.lasting, name)}
        totals: dict[str, Tensors] = {}
        for samples in self._described(encoders) if wanted else ():
            for name, statistic in wanted.items():
                own, sofar = statistic.make(samples), totals.get(name, {})
                totals[name] = {key: sofar[key] + own[key] if sofar else own[key] for key in own}
        made: Tensors = {}
        for name, own in totals.items():
            if wanted[name].sums:
                principal = self.trainer.describer.principal if wanted[name].ends_in_description else 0
                own = factored(own, self.config.describe.sums or "fp32", principal)
            made |= prefixed(name, own)
            if wanted[name].lasting:
                self.lasting |= prefixed(name, own)
        every_made = {**self.lasting, **made}
        return {key: every_made[key] for key in every_made if key.partition("/")[0] in needed}

    def _described(self, encoders: Sequence[Encoder]) -> Iterator[Samples]:
        trainer, counts = self.trainer, self.class_counts.to(self.trainer.device)
        trainer.runners.evaluation_mode(encoders)
        may_leave = counts >= self.config.upload.min_count
        rows = torch.diag(may_leave.float())
        for images, labels in self._own_batches():
            yield Samples(
                images.float() / 255,
                rows[labels],
                counts * may_leave,
                encoders,
                trainer.runners.encode,
                lambda: trainer.describer,
            )

    def _own_batches(self) -> Iterator[tuple[Tensor, Tensor]]:
        return self.samples.batches(batch_count(len(self.samples), self._at_once))

    @property
    def _at_once(self) -> int:
        return images_at_once(self.trainer.device, self.samples.store.pixels)
