"""The server's own training for V6: a teacher on the public share, and the bank of its features."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from anchorfl.compute import Stepper, images_at_once
from anchorfl.data import ImageStore
from anchorfl.objective import NoAlignment
from anchorfl.randomness import generator
from anchorfl.site import Client, Trainer
from anchorfl.wire import Task

SERVER = -1
EPOCHS = 20
BANK_SIZE = 4096


def build_bank(
    task: Task,
    device: torch.device,
    stepper: Stepper,
    store: ImageStore,
    public: NDArray[np.int64],
    on_batch: Callable[[int], None],
) -> Tensor:
    """Normalised features of up to 4096 public images, M x d, under a teacher trained on the share.

    The teacher starts where the clients start and learns V4's losses for 20 epochs. Source: seed 004.
    """
    train = replace(task.config.train, rounds=1, local_epochs=EPOCHS)
    config = replace(task.config, method="v4", train=train, align=NoAlignment(), fusion={})
    trainer = Trainer(Task(config, task.facts, task.weights), device, stepper)
    teacher = Client(SERVER, trainer, store, public, task.facts.classes)
    teacher.train_round(0, on_batch)
    weights = teacher.upload().weights
    chosen = torch.randperm(len(public), generator=generator(config.seed, "bank"))[:BANK_SIZE]
    index = torch.from_numpy(public)[chosen].to(store.index_device)
    trainer.network.eval()
    with torch.no_grad():
        parts = index.tensor_split(-(-len(index) // images_at_once(device, store.pixels)))
        images = (store.take(part)[0].float() / 255 for part in parts)
        bank = torch.cat([trainer.runner.encode(weights, part) for part in images])
    stepper.close()
    return bank
