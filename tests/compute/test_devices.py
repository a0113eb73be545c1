import subprocess
import sys

import pytest

ALLOCATE = """
import resource, sys, torch
from anchorfl.compute import choose_device
if sys.argv[1] == "chosen":
    choose_device("cpu")
for _ in range(20):
    torch.ones(1 << 24)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(10):
    torch.ones(1 << 24)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def pages_cleared(how: str) -> int:
    """In ten allocations of 64 MiB, one after the other."""
    command = [sys.executable, "-c", ALLOCATE, how]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return int(done.stdout)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="a matter of glibc")
def test_large_blocks_are_not_cleared_anew_by_the_system() -> None:
    assert pages_cleared("chosen") < pages_cleared("not chosen") / 10
