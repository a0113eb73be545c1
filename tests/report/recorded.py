"""Runs on digits that were recorded, to compare without training."""

from __future__ import annotations

from anchorfl.runs import Run, read_run
from tests.conftest import RECORDS


def recorded(*methods: str, seeds: tuple[int, ...] = (1, 2, 3)) -> list[Run]:
    return [read_run(RECORDS / "digits" / f"{name}-seed{seed}") for name in methods for seed in seeds]
