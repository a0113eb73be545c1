"""How many multiplications and additions a computation takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry


class FlopCount(TorchDispatchMode):
    """torch's FlopCounterMode without its parts, and without its import of a compiler, two seconds."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.total = 0

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        found = func(*args, **(kwargs or {}))
        formula = flop_registry.get(func.overloadpacket)
        if formula is not None:
            self.total += formula(*args, **(kwargs or {}), out_val=found)
        return found


@torch.no_grad()
def count_flops(compute: Callable[[], object]) -> int:
    with FlopCount() as counter:
        compute()
    return int(counter.total)
