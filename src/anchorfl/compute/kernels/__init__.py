"""Kernels of our own for a GPU, in Triton, which is imported only where they are used."""

from __future__ import annotations

from functools import cache

import torch

LUMA = (0.299, 0.587, 0.114)
"""What red, green and blue contribute to brightness (ITU-R BT.601)."""


@cache
def kernels_work(device: torch.device) -> bool:
    """Whether our kernels can be built for the device, found by building one.

    Triton comes with torch for a GPU, but it also needs a C compiler.
    """
    if device.type != "cuda":
        return False
    try:
        from anchorfl.compute.kernels.normalise import normalise

        one = torch.ones(1, device=device)
        normalise(torch.ones(1, 1, device=device), None, one, one, one, one, 1.0, rectify=False)
    except Exception:  # whatever Triton lacks, torch's own kernels do without
        return False
    return True
