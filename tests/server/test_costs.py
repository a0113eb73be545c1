"""Operations are counted as torch counts them, in a process that starts as fast."""

import subprocess
import sys

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from anchorfl.compute import count_flops
from anchorfl.nn import build_encoder

COUNT = """
import sys
from anchorfl.compute import count_flops
from torch import ones
assert count_flops(lambda: ones(2, 3) @ ones(3, 4)) == 48
assert "torch._dynamo" not in sys.modules
"""


@pytest.mark.parametrize("name", ["resnet18", "small-cnn"])
def test_operations_are_those_that_torch_counts(name: str) -> None:
    encoder, images = build_encoder(name, (3, 32, 32)).eval(), torch.rand(2, 3, 32, 32)
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        encoder(images)
    assert count_flops(lambda: encoder(images)) == counter.get_total_flops() > 0


def test_no_compiler_is_imported_to_count() -> None:
    subprocess.run([sys.executable, "-c", COUNT], check=True, timeout=120)
