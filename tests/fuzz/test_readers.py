"""The short form of `make fuzz`: mutated seeds of every reader."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from anchorfl.errors import UserError
from tests.fuzz.readers import READERS

CORPUS = Path(__file__).parent / "corpus"
CHANGES = st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), max_size=12)


@pytest.mark.parametrize("name", READERS)
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(which=st.integers(0, 9), changes=CHANGES, cut=st.integers(0, 200), noise=st.binary(max_size=30))
def test_a_reader_reads_or_refuses(
    name: str, which: int, changes: list[tuple[int, int]], cut: int, noise: bytes
) -> None:
    read, seeds = READERS[name]
    found = seeds()
    data = bytearray(found[which % len(found)])
    for place, value in changes:
        data[place % len(data)] = value
    with suppress(UserError):
        read(bytes(data[: len(data) - cut % 60]) + (noise if cut % 2 else b""))


@pytest.mark.parametrize("path", sorted(CORPUS.iterdir()), ids=lambda path: path.name)
def test_what_fuzzing_found_is_refused(path: Path) -> None:
    read, _ = READERS[path.name.partition("-")[0]]
    with pytest.raises(UserError):
        read(path.read_bytes())
