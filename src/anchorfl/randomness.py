"""Every random number comes from (seed, purpose, client, epoch), never from a global generator.

A client is named by its number in a simulation, by its site's name where it has one.

So a client's result depends neither on the other clients nor on the order in which they run, and
the draws are the same on every device, because they are always made on the host.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import torch


def derive(seed: int, purpose: str, client: int | str = -1, epoch: int = -1) -> int:
    """A 63-bit seed that differs, as far as anyone can tell, for every argument tuple."""
    key = f"{seed}/{purpose}/{client}/{epoch}".encode()
    return int.from_bytes(blake2b(key, digest_size=8).digest(), "big") >> 1


def generator(seed: int, purpose: str, client: int | str = -1, epoch: int = -1) -> torch.Generator:
    import torch

    return torch.Generator().manual_seed(derive(seed, purpose, client, epoch))


def numpy_generator(seed: int, purpose: str) -> np.random.Generator:
    import numpy as np

    return np.random.default_rng(derive(seed, purpose))


@contextmanager
def seeded(
    seed: int,
    purpose: str,
    client: int | str = -1,
    epoch: int = -1,
    device: torch.device | None = None,
) -> Iterator[None]:
    """For code that draws from the global generator (a module's initialisation, dropout).

    Inside, that generator starts from the derived seed; afterwards it is as it was before.
    """
    import torch

    with torch.random.fork_rng(devices=[device] if device and device.type == "cuda" else []):
        torch.manual_seed(derive(seed, purpose, client, epoch))
        yield
