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
from anchorfl.models import build_network
from anchorfl.objective import Bank, NoAlignment
from anchorfl.randomness import derive, generator
from anchorfl.site import Client, Trainer
from anchorfl.wire import Task

SERVER = -1


def build_bank(
    task: Task,
    device: torch.device,
    stepper: Stepper,
    store: ImageStore,
    public: NDArray[np.int64],
    on_batch: Callable[[int], None],
) -> Tensor:
    """Normalised features of public images, M x d, under a teacher trained on the public share.

    What the teacher learns, for how long and from where are options of the bank. Source: diary 004 (20
    epochs, 4096 features); its code trained the teacher with cross entropy alone, from a start of its
    own, without augmentation or clipping.
    """
    options = task.config.target
    assert isinstance(options, Bank)
    trainer = Trainer(teacher_task(task, options), device, stepper)
    config = trainer.config
    teacher = Client(SERVER, trainer, store, public, task.facts.classes)
    teacher.train_round(0, on_batch)
    weights = teacher.upload().weights
    chosen = torch.randperm(len(public), generator=generator(config.seed, "bank"))[: options.bank_size]
    index = torch.from_numpy(public)[chosen].to(store.index_device)
    trainer.network.eval()
    with torch.no_grad():
        parts = index.tensor_split(-(-len(index) // images_at_once(device, store.pixels)))
        images = (store.take(part)[0].float() / 255 for part in parts)
        bank = torch.cat([trainer.runner.encode(weights, part) for part in images])
    stepper.close()
    return bank


def teacher_task(task: Task, options: Bank) -> Task:
    """What the teacher is given, as a client would be."""
    config = task.config
    plain = options.teacher_loss == "cross-entropy"
    train = replace(
        config.train,
        rounds=1,
        local_epochs=options.teacher_epochs,
        augment=options.teacher_augment,
        clip_norm=0.0 if plain else config.train.clip_norm,
    )
    config = replace(
        config,
        method=options.teacher_loss,
        train=train,
        align=NoAlignment(),
        target=None,
        fusion={},
    )
    weights = task.weights
    if options.teacher_start == "own":
        seed = derive(config.seed, "teacher")
        weights = build_network(config.model.names[0], task.facts, seed).state_dict()
    return replace(task, config=config, weights=weights, target=None)
