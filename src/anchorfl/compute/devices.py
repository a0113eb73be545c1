"""Where a run computes, in which precision, on how many threads."""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch
from torch import Tensor

from anchorfl.errors import UserError


def choose_device(wanted: str) -> torch.device:
    """`auto` takes a GPU where there is one; anything else must exist."""
    if wanted == "auto" and torch.cuda.is_available():
        return torch.device("cuda")
    try:
        device = torch.device("cpu" if wanted == "auto" else wanted)
    except RuntimeError:
        raise UserError(f"device={wanted}: must be auto, cpu, cuda, cuda:N or mps") from None
    if device.type == "cuda":
        if not torch.cuda.is_available():
            raise UserError(f"device={wanted}: this machine has no usable GPU; use device=cpu")
        if (device.index or 0) >= torch.cuda.device_count():
            raise UserError(f"device={wanted}: there are only {torch.cuda.device_count()} GPUs")
        torch.cuda.set_device(device.index or 0)
    elif device.type == "mps" and not torch.backends.mps.is_available():
        raise UserError(f"device={wanted}: this machine has no Apple GPU; use device=cpu")
    elif device.type not in ("cpu", "mps"):
        raise UserError(f"device={wanted}: must be auto, cpu, cuda, cuda:N or mps")
    if device.type == "cpu":
        keep_freed_memory()
    return device


MMAP_THRESHOLD, TRIM_THRESHOLD = -3, -1
"""The names that mallopt has for them."""


@cache
def keep_freed_memory() -> None:
    """Have glibc keep large blocks for the next step of training.

    It gives them back to the system, which clears every page anew when the next step asks for them:
    half the time of training on a CPU. The process then keeps the most that it ever needed. Other
    libraries have no such switch, older ones refuse so high a threshold; both are left alone.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if os.name == "posix" else None
    if mallopt is not None and mallopt(MMAP_THRESHOLD, 1 << 30):
        mallopt(TRIM_THRESHOLD, -1)


def send(tensor: Tensor, device: torch.device) -> Tensor:
    """To the device, without waiting for it."""
    if device.type != "cuda":
        return tensor.to(device)
    return tensor.pin_memory().to(device, non_blocking=True)


def images_at_once(device: torch.device, pixels: int) -> int:
    """How many images an encoder is given without gradients: enough to keep the device busy."""
    most = 4096 if device.type == "cuda" else 1024
    return max(64, min(most, most * 32 * 32 // pixels))


def cores() -> int:
    """Those that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def choose_threads(wanted: int | None, small: bool) -> int:
    """As wanted; unset, one for small work, else as many as there are idle cores.

    Small work has nothing to share out, and threads that wait for each other on a busy machine are
    many times slower than one. torch's own number, which OMP_NUM_THREADS sets, is never exceeded.
    """
    if wanted is not None:
        return wanted
    busy = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    return 1 if small else max(1, min(torch.get_num_threads(), cores() - round(busy)))


@contextmanager
def using_threads(count: int) -> Iterator[None]:
    """Inside, torch computes on so many CPU threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def synchronise(device: torch.device) -> None:
    """Wait for a GPU, so that a clock read next is right."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def device_name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type


def working_precision(wanted: str, device: torch.device) -> str:
    """`auto` is bf16 where the GPU has it, else fp32."""
    if wanted != "auto":
        return wanted
    return "bf16" if device.type == "cuda" and torch.cuda.is_bf16_supported() else "fp32"


@contextmanager
def full_precision() -> Iterator[None]:
    """Convolutions in fp32, whatever the run trains in: every site must get the same numbers."""
    before = torch.backends.cudnn.allow_tf32
    torch.backends.cudnn.allow_tf32 = False
    try:
        yield
    finally:
        torch.backends.cudnn.allow_tf32 = before


def set_precision(precision: str, device: torch.device) -> None:
    """Switch the GPU's own float32 mode.

    The search for the fastest convolutions stays off: measured on an H200 it gains nothing, and it
    costs seconds for every new batch shape, of which clients of different sizes bring many.
    """
    if device.type == "cuda":
        torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
        torch.backends.cudnn.allow_tf32 = precision != "fp32"


class Stopwatch:
    """Seconds on the device from its making to `stop`; read after waiting for the device."""

    def __init__(self, device: torch.device) -> None:
        self.on_gpu = device.type == "cuda"
        self.marks = [self._mark()]

    def stop(self) -> None:
        self.marks.append(self._mark())

    def _mark(self) -> Any:
        if not self.on_gpu:
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        event.record()
        return event

    def seconds(self) -> float:
        first, last = self.marks
        return float(first.elapsed_time(last) / 1000 if self.on_gpu else last - first)
