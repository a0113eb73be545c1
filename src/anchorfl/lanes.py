"""Where a client's steps run: on the spot, or replayed as CUDA graphs in lanes side by side.

A step is some hundreds of kernels. Recorded once for a batch size, it is replayed by one call; what
it works on, a client's state included, is then copied to the places that were recorded. Batches are
padded to few sizes. Small ones leave a GPU idle: as many clients are under way at once as fill one
full batch. A client that has no batch left is not replayed, so nothing of it moves.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from anchorfl.batch import Batch
from anchorfl.tensors import Tensors

if TYPE_CHECKING:
    from anchorfl.training import Trainer

MOST_LANES = 8


def padded_size(samples: int, batch_size: int) -> int:
    """The next number with three binary digits and zeros behind them, at most a full batch."""
    grain = 1 << max((samples - 1).bit_length() - 3, 0)
    return max(samples, min(-(-samples // grain) * grain, batch_size))


class Lane:
    """Steps taken on the spot, on the client's own state."""

    def __init__(self, trainer: Trainer, state: Tensors) -> None:
        self.trainer, self.state = trainer, state
        self.names: list[str] = []
        self.sums: Tensor | None = None

    def step(self, batch: Batch, lr: Tensor, anneal: Tensor) -> None:
        """One step; its readings, each times the samples, are added up."""
        measured = self.trainer.step(self.state, batch, lr, anneal)
        values = torch.stack(list(measured.values())) * batch.size()
        if self.sums is None:
            self.names, self.sums = list(measured), torch.zeros_like(values)
        self.sums += values

    def finish(self) -> Tensors:
        """The readings' sums; from here on the client's state is up to date."""
        assert self.sums is not None
        return dict(zip(self.names, self.sums.clone().unbind(), strict=True))


@dataclass(frozen=True)
class Recording:
    """A step of one padded size: the graph, and the places it reads."""

    graph: torch.cuda.CUDAGraph
    batch: Batch
    lr: Tensor
    anneal: Tensor

    def replay(self, batch: Batch, lr: Tensor, anneal: Tensor) -> None:
        self.batch.fill(batch)
        self.lr.copy_(lr)
        self.anneal.copy_(anneal)
        self.graph.replay()


class GraphLane(Lane):
    """Steps replayed from recordings, on a state of the lane's own; one client at a time."""

    def __init__(self, trainer: Trainer, like: Tensors) -> None:
        own = {name: torch.zeros_like(value) for name, value in like.items()}
        super().__init__(trainer, own)
        for name, value in like.items():
            own[name].requires_grad_(value.requires_grad)
        self.client: Tensors = {}
        self.stream = torch.cuda.Stream(trainer.device)  # type: ignore[no-untyped-call]
        self.pool = torch.cuda.graph_pool_handle()
        self.recordings: dict[int, Recording] = {}

    def enter(self, client: Tensors) -> None:
        self.client = client
        copy(client, self.state)
        if self.sums is not None:
            self.sums.zero_()

    def step(self, batch: Batch, lr: Tensor, anneal: Tensor) -> None:
        size = padded_size(len(batch.labels), self.trainer.config.train.batch_size)
        if size not in self.recordings and self.trainer.lanes.trouble is None:
            self._record(size, batch, lr, anneal)
        if size in self.recordings:
            self.recordings[size].replay(batch, lr, anneal)
        else:
            super().step(batch, lr, anneal)

    def finish(self) -> Tensors:
        copy(self.state, self.client)
        return super().finish()

    def _record(self, size: int, batch: Batch, lr: Tensor, anneal: Tensor) -> None:
        """Rehearse and record; the client's state is afterwards what it was before.

        A user's encoder may do what a graph cannot hold: then everything runs on the spot.
        """
        graph = torch.cuda.CUDAGraph()
        recording = Recording(graph, batch.padded(size), lr.clone(), anneal.clone())
        recorded = (recording.batch, recording.lr, recording.anneal)
        before, sums = {name: value.detach().clone() for name, value in self.state.items()}, self.sums
        sums = None if sums is None else sums.clone()
        try:
            super().step(*recorded)
            torch.cuda.synchronize(self.trainer.device)
            graph.capture_begin(self.pool)
            try:
                super().step(*recorded)
            finally:
                graph.capture_end()
            self.recordings[size] = recording
        except RuntimeError as error:
            self.trainer.lanes.trouble = str(error).splitlines()[0]
            forget_recording(self.trainer.device)
        copy(before, self.state)
        if self.sums is not None:
            self.sums.copy_(torch.zeros_like(self.sums) if sums is None else sums)


def forget_recording(device: torch.device) -> None:
    """A recording that broke off leaves the generator waiting for its end: give it a fresh state."""
    generator = torch.cuda.default_generators[device.index or 0]
    generator.graphsafe_set_state(generator.clone_state())


@torch.no_grad()
def copy(source: Tensors, target: Tensors) -> None:
    """Values of one flat state into another: all of a kind at a time."""
    for dtype in {value.dtype for value in source.values()}:
        names = [name for name, value in source.items() if value.dtype == dtype]
        torch._foreach_copy_([target[name] for name in names], [source[name] for name in names])


class Lanes:
    """Hands out lanes in turn; `trouble` says why steps could not be recorded, if so."""

    def __init__(self, trainer: Trainer, record: bool) -> None:
        self.trainer, self.record = trainer, record
        self.trouble: str | None = None
        self.lanes: list[GraphLane] = []
        self.turn = 0

    @contextmanager
    def open(self, client: Tensors, batch: int) -> Iterator[Lane]:
        """A lane for a client whose largest batch is given."""
        if not self.record:
            yield Lane(self.trainer, client)
            return
        full = self.trainer.config.train.batch_size
        number = self.turn % max(1, min(full // padded_size(batch, full), MOST_LANES))
        self.turn += 1
        while len(self.lanes) <= number:
            self.lanes.append(GraphLane(self.trainer, client))
        lane = self.lanes[number]
        lane.stream.wait_stream(torch.cuda.current_stream(self.trainer.device))
        with torch.cuda.stream(lane.stream):
            lane.enter(client)
            yield lane
