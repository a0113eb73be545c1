"""What several benchmarks share: noise as data, a simulation on it, finished runs, descriptions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from anchorfl.compute import choose_device, images_at_once
from anchorfl.config import Config
from anchorfl.data import Dataset, ImageFacts, Split, draw_partition
from anchorfl.describe import Describer
from anchorfl.prepare import Setup, new_task
from anchorfl.runs import Run, read_run
from anchorfl.server import Server
from anchorfl.settings import parse_words
from anchorfl.simulate import Simulation, data_of
from anchorfl.simulate.fusing import server_of

TINY = "--tiny"


def without_tiny(words: Sequence[str]) -> tuple[list[str], bool]:
    """The words without `--tiny`, and whether it was among them."""
    return [word for word in words if word != TINY], TINY in words


def noise(train: int, test: int, classes: int = 10, side: int = 32) -> Dataset:
    """In the shape of CIFAR-10, by default: it takes the same time."""
    draw = np.random.default_rng(0)

    def split(count: int) -> Split:
        images = draw.integers(0, 256, (count, 3, side, side), dtype=np.uint8)
        return Split(images, np.arange(count) % classes)

    facts = ImageFacts((3, side, side), classes, (0.5,) * 3, (0.25,) * 3)
    return Dataset("noise", split(train), split(test), [str(k) for k in range(classes)], facts)


def simulation_on(dataset: Dataset, config: Config) -> Simulation:
    """On data of one's own making, where `Simulation.prepare` would read those of the settings."""
    partition = draw_partition(dataset.train.labels, config.partition, 0.0, dataset.name)
    setup = Setup(new_task(config, dataset.facts, tuple(dataset.class_names)), config)
    return Simulation(setup, dataset, partition, choose_device("auto"))


def finished(folder: str, words: Sequence[str]) -> tuple[Run, Dataset, Server]:
    """A run, its data from `data.root=DIR` where that is among the words, a server with its uploads."""
    run, root = read_run(folder), parse_words(list(words)).get("data.root")
    dataset = data_of(run, None if root is None else str(root))
    return run, dataset, server_of(run, run.config.replace_general(device="auto"))


def described(describer: Describer, images: Tensor, device: torch.device) -> Tensor:
    """N x width: one row per image, given as bytes."""
    parts = images.split(min(256, images_at_once(device, images.shape[-1] ** 2)))
    return torch.cat([describer(part.to(device).float() / 255) for part in parts])
