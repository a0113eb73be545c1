"""Every random number comes from (seed, purpose, client, epoch), never from a global generator.

So a client's result depends neither on the other clients nor on the order in which they run, and
the draws are the same on every device, because they are always made on the host.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b

import numpy as np
import torch

HOST = torch.device("cpu")


def derive(seed: int, purpose: str, client: int = -1, epoch: int = -1) -> int:
    """A 63-bit seed that differs, as far as anyone can tell, for every argument tuple."""
    key = f"{seed}/{purpose}/{client}/{epoch}".encode()
    return int.from_bytes(blake2b(key, digest_size=8).digest(), "big") >> 1


def generator(seed: int, purpose: str, client: int = -1, epoch: int = -1) -> torch.Generator:
    return torch.Generator().manual_seed(derive(seed, purpose, client, epoch))


def numpy_generator(seed: int, purpose: str) -> np.random.Generator:
    return np.random.default_rng(derive(seed, purpose))


@contextmanager
def seeded(
    seed: int, purpose: str, client: int = -1, epoch: int = -1, device: torch.device = HOST
) -> Iterator[None]:
    """For code that draws from the global generator (a module's initialisation, dropout).

    Inside, that generator starts from the derived seed; afterwards it is as it was before.
    """
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(derive(seed, purpose, client, epoch))
        yield
