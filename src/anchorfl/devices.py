"""Where a run computes."""

from __future__ import annotations

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
    if wanted == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(wanted)
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
    return device


def send(tensor: Tensor, device: torch.device) -> Tensor:
    """To the device, without waiting for it."""
    if device.type != "cuda":
        return tensor.to(device)
    return tensor.pin_memory().to(device, non_blocking=True)


@cache
def can_fuse(device: torch.device) -> bool:
    """Whether kernels of our own can be built for the device, found by building one.

    Triton comes with torch for a GPU, but it also needs a C compiler.
    """
    if device.type != "cuda":
        return False
    try:
        from anchorfl.kernels.normalise import normalise

        one = torch.ones(1, device=device)
        normalise(torch.ones(1, 1, device=device), None, one, one, one, one, 1.0, rectify=False)
    except Exception:  # whatever Triton lacks, torch's own kernels do without
        return False
    return True


def images_at_once(device: torch.device, pixels: int) -> int:
    """How many images an encoder is given without gradients: enough to keep the device busy."""
    most = 4096 if device.type == "cuda" else 1024
    return max(64, min(most, most * 32 * 32 // pixels))


def synchronise(device: torch.device) -> None:
    """Wait for a GPU, so that a clock read next tells the truth."""
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
