"""Steps replayed as CUDA graphs, several clients side by side.

A step is some hundreds of kernels. Recorded once for a batch size, it is replayed by one call; what
it works on, a client's state included, is then copied to the places that were recorded. Batches are
padded to few sizes. Small ones leave a GPU idle: as many clients are under way at once as fill one
full batch, and never fewer than two, so that one works in the other's gaps between kernels. A client
that has no batch left is not replayed, so nothing of it moves.
"""

from __future__ import annotations

import gc
import random
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import torch
from torch import Tensor

from anchorfl.compute.batch import Batch
from anchorfl.compute.stepper import Step, Stepper, Steps
from anchorfl.tensors import Tensors

FEWEST_LANES, MOST_LANES = 2, 8


def padded_size(samples: int, batch_size: int) -> int:
    """The next number with three binary digits and zeros behind them, at most a full batch."""
    grain = 1 << max((samples - 1).bit_length() - 3, 0)
    return max(samples, min(-(-samples // grain) * grain, batch_size))


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


class GraphStepper(Stepper):
    """Deals clients out to lanes, each a stream of its own with its own recordings."""

    def __init__(self, device: torch.device, batch_size: int) -> None:
        self.device, self.batch_size = device, batch_size
        self.lanes: list[Lane] = []
        self.places: dict[int, int] = {}
        self.loads = [0] * MOST_LANES

    def close(self) -> None:
        """Give the recordings' memory back."""
        self.lanes.clear()

    @contextmanager
    def steps(
        self, step: Step, client: int, state: Tensors, samples: int, batch: int
    ) -> Iterator[Steps]:
        if client not in self.places:
            padded = padded_size(batch, self.batch_size)
            wanted = max(FEWEST_LANES, min(self.batch_size // padded, MOST_LANES))
            self.places[client] = min(range(wanted), key=self.loads.__getitem__)
            self.loads[self.places[client]] += samples
        place = self.places[client]
        while len(self.lanes) <= place:
            self.lanes.append(Lane(self, step, state))
        lane = self.lanes[place]
        lane.stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(lane.stream):
            lane.enter(state)
            yield lane


class Lane(Steps):
    """Steps replayed from recordings, on a state of the lane's own; one client at a time."""

    def __init__(self, stepper: GraphStepper, step: Step, like: Tensors) -> None:
        own = {name: torch.zeros_like(value) for name, value in like.items()}
        super().__init__(step, own)
        for name, value in like.items():
            own[name].requires_grad_(value.requires_grad)
        self.stepper, self.device = stepper, stepper.device
        self.client: Tensors = {}
        self.stream = torch.cuda.Stream(self.device)  # type: ignore[no-untyped-call]
        self.pool = torch.cuda.graph_pool_handle()
        self.recordings: dict[int, Recording] = {}

    def enter(self, client: Tensors) -> None:
        self.client = client
        copy(client, self.state)
        self.marks = None
        self.sums.zero_()

    def _take(self, batch: Batch, lr: Tensor, anneal: Tensor) -> None:
        size = padded_size(len(batch.labels), self.stepper.batch_size)
        if size not in self.recordings and self.stepper.trouble is None:
            self._record(size, batch, lr, anneal)
        if size in self.recordings:
            self.recordings[size].replay(batch, lr, anneal)
        else:
            super()._take(batch, lr, anneal)

    def finish(self) -> Tensors:
        copy(self.state, self.client)
        return super().finish()

    def _record(self, size: int, batch: Batch, lr: Tensor, anneal: Tensor) -> None:
        """Rehearse and record; the client's state is afterwards what it was before.

        A user's encoder may do what a graph cannot hold: then every step is eager.
        """
        graph = torch.cuda.CUDAGraph()
        recording = Recording(graph, batch.padded(size), lr.clone(), anneal.clone())
        recorded = (recording.batch, recording.lr, recording.anneal)
        before = {name: value.detach().clone() for name, value in self.state.items()}
        sums = self.sums.clone()
        generators = GeneratorWatch(self.device)
        super()._take(*recorded)
        if generators.moved():
            self.stepper.trouble = "the encoder draws random numbers"
        else:
            torch.cuda.synchronize(self.device)
            collecting = gc.isenabled()
            gc.disable()  # an earlier run's graphs in a reference cycle: freeing them ends a recording
            graph.capture_begin(self.pool)
            try:
                super()._take(*recorded)
                graph.capture_end()
                self.recordings[size] = recording
            except RuntimeError as error:
                self.stepper.trouble = " ".join(str(error).split())[:120] or "recording failed"
                self._break_off(graph)
            finally:
                if collecting:
                    gc.enable()
        generators.put_back()
        copy(before, self.state)
        self.sums.zero_().add_(sums)  # which the rehearsal may have made

    def _break_off(self, graph: torch.cuda.CUDAGraph) -> None:
        """End a recording that failed: torch's generator and allocator still wait for its end."""
        device = self.device.index or 0
        with suppress(RuntimeError):
            graph.capture_end()
        with suppress(RuntimeError):
            torch._C._cuda_endAllocateToPool(device, self.pool)
        generator = torch.cuda.default_generators[device]
        generator.graphsafe_set_state(generator.clone_state())


class GeneratorWatch:
    """Whether random numbers were drawn since it was made, and as if they had not been.

    A graph would repeat them, and lanes would share them.
    """

    def __init__(self, device: torch.device) -> None:
        self.on_gpu = torch.cuda.default_generators[device.index or 0]
        self.before = self._states()

    def _states(self) -> tuple[Tensor, Tensor, object]:
        return self.on_gpu.get_state(), torch.get_rng_state(), random.getstate()

    def moved(self) -> bool:
        now = self._states()
        tensors = zip(now[:2], self.before[:2], strict=True)
        return now[2] != self.before[2] or not all(torch.equal(a, b) for a, b in tensors)

    def put_back(self) -> None:
        self.on_gpu.set_state(self.before[0])
        torch.set_rng_state(self.before[1])
        random.setstate(self.before[2])  # type: ignore[arg-type]


@torch.no_grad()
def copy(source: Tensors, target: Tensors) -> None:
    """Values of one flat state into another: all of one dtype at a time."""
    for dtype in {value.dtype for value in source.values()}:
        names = [name for name, value in source.items() if value.dtype == dtype]
        torch._foreach_copy_([target[name] for name in names], [source[name] for name in names])
