"""The server's own training for V6: a teacher on the public share, and the bank of its features."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from anchorfl.compute import Stepper, images_at_once
from anchorfl.data import Shard
from anchorfl.nn import build_network
from anchorfl.objective import Bank, NoAlignment
from anchorfl.prepare import Setup
from anchorfl.randomness import derive, generator
from anchorfl.site import Site, Trainer

SERVER = -1


def build_bank(
    setup: Setup,
    options: Bank,
    device: torch.device,
    stepper: Stepper,
    public: Shard,
    on_batch: Callable[[int], None],
) -> Tensor:
    """Normalised features of public images, M x d, under a teacher trained on the public share.

    What the teacher learns, for how long and from where are options of the bank. Source: diary 004 (20
    epochs, 4096 features); its code trained the teacher with cross entropy alone, from a start of its
    own, without augmentation or clipping.
    """
    trainer = Trainer(teacher_setup(setup, options), device, stepper)
    teacher = Site(trainer, public, str(SERVER), SERVER)
    teacher.train_round(0, on_batch)
    weights, seed = teacher.upload().weights, setup.config.seed
    chosen = torch.randperm(len(public), generator=generator(seed, "bank"))[: options.bank_size]
    some = Shard(public.store, public.index[chosen])
    trainer.network.eval()
    with torch.no_grad():
        parts = some.batches(-(-len(some) // images_at_once(device, public.store.pixels)))
        bank = [trainer.runner.encode(weights, images.float() / 255) for images, _ in parts]
    stepper.close()
    return torch.cat(bank)


def teacher_setup(setup: Setup, options: Bank) -> Setup:
    """What the teacher is given, as a client would be."""
    config, task = setup.config, setup.task
    plain = options.teacher_loss == "cross-entropy"
    config = config.replace_train(
        rounds=1,
        local_epochs=options.teacher_epochs,
        augment=options.teacher_augment,
        clip_norm=0.0 if plain else config.train.clip_norm,
    )
    config = replace(
        config, method=options.teacher_loss, align=NoAlignment(), target=None, fusion={}, needs=()
    )
    weights = task.weights
    if options.teacher_start == "own":
        seed = derive(config.seed, "teacher")
        weights = build_network(config.model.names[0], setup.facts, seed).state_dict()
    return Setup(replace(task, weights=weights, target=None), config)
