"""One network instead of K: a student that learns the fused model's answers to unlabelled images."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from anchorfl.compute import choose_device, working_precision
from anchorfl.config import Config
from anchorfl.data import Shape, augmentation_for, read_images
from anchorfl.describe import dead_leaves
from anchorfl.errors import UserError
from anchorfl.files import write_whole
from anchorfl.fusion import PrototypeHead
from anchorfl.messages import digest, pack, unpack
from anchorfl.model.fused import FusedModel
from anchorfl.model.heads import built_by
from anchorfl.model.inference import image_files, in_parts
from anchorfl.nn import LAYOUT, Network, build_network
from anchorfl.randomness import generator
from anchorfl.tensors import prefixed, section

LR, MOMENTUM, DECAY = 0.05, 0.9, 5e-4
SYNTHETIC_SETS = 20
KEPT = 20
"""How often a distillation's state is written on its way."""


@dataclass(frozen=True)
class Source:
    """Unlabelled images as bytes, N x channels x height x width, and where they come from."""

    images: Tensor
    name: str


def public_source(images: Tensor) -> Source:
    return Source(images, f"the public share, {len(images):,} images without their labels")


def folder_source(folder: Path, shape: Shape) -> Source:
    """The user's own images."""
    channels, height, _ = shape
    paths = image_files(folder) if folder.is_dir() else []
    if not paths:
        raise UserError(f"--images {folder}: no folder that holds images")
    split = read_images([(path, 0) for path in paths], height, channels)
    return Source(torch.from_numpy(split.images), f"{len(paths):,} images of {folder}")


def synthetic_source(shape: Shape, seed: int) -> Source:
    """Dead leaves, made from nothing."""
    channels, height, width = shape
    leaves = [
        dead_leaves(channels, generator(seed, "distill", epoch=number))
        for number in range(SYNTHETIC_SETS)
    ]
    images = F.interpolate(torch.cat(leaves), (height, width), mode="bilinear", antialias=True)
    return Source((255 * images).round().byte(), f"{len(images):,} synthetic images (dead leaves)")


def distill(
    teacher: FusedModel,
    config: Config,
    source: Source,
    steps: int,
    on_step: Callable[[int], None],
    keep: Path | None = None,
    code: Sequence[str] = (),
) -> FusedModel:
    """Minimise KL(teacher | student) on augmented images that both see alike.

    The student is one network of the run's kind; SGD, the rate falls as a cosine. `keep` is a file to
    write the state to on the way, and to resume the same distillation from; `code` as in
    `FusedModel.load`.
    Source: Hinton et al., 2015; one view for both: Beyer et al., 2022.
    """
    device = choose_device("auto")
    teacher = teacher.to(device)
    card = teacher.card
    student = build_network(built_by(card.student, code), card.facts, config.seed + 1).to(device)
    student.to(memory_format=LAYOUT)  # type: ignore[call-overload]
    images = source.images.to(device)
    recipe = augmentation_for(card.facts.shape, bool(config.data.flip), config.data.least_crop)
    draw = generator(config.seed, "distill")
    optimizer = torch.optim.SGD(student.parameters(), LR, MOMENTUM, weight_decay=DECAY, nesterov=True)
    size = min(config.train.batch, len(images))
    reduced = working_precision("auto", device) == "bf16"
    weights = balanced(teacher, source.images)
    student.train()
    views_of = {"flip": bool(config.data.flip), "crop": config.data.least_crop}
    how = {"steps": steps, "seed": config.seed, "batch": size, **views_of}
    same = digest(how, {**teacher.state_dict(), "images": source.images}) if keep else ""
    begun = go_on(keep, same, student, optimizer, draw) if keep else 0
    for step in range(begun, steps):
        for group in optimizer.param_groups:
            group["lr"] = LR * (1 + math.cos(math.pi * step / steps)) / 2
        chosen = torch.multinomial(weights, size, replacement=True, generator=draw).to(device)
        views = recipe.apply(images[chosen], recipe.draw(size, draw)[None].to(device))
        with torch.no_grad():
            wanted = teacher.probabilities(views)
        with torch.autocast(device.type, torch.bfloat16, enabled=reduced):
            scores = student(views) @ student.prototypes.T
        loss = F.kl_div(scores.float().log_softmax(dim=1), wanted, reduction="batchmean")
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        on_step(step)
        if keep and (step + 1) % -(-steps // KEPT) == 0:
            write_whole(keep, state_of(step + 1, same, student, optimizer, draw))
    return as_model(student.cpu(), teacher)


def state_of(
    step: int, same: str, student: Network, optimizer: torch.optim.SGD, draw: torch.Generator
) -> bytes:
    """All that the next step depends on; `same` names the distillation."""
    momentum = {
        name: optimizer.state[weight]["momentum_buffer"]
        for name, weight in student.named_parameters()
        if weight in optimizer.state
    }
    tensors = {**prefixed("student", student.state_dict()), **prefixed("momentum", momentum)}
    return pack("distillation", {"step": step, "same": same}, {**tensors, "draw": draw.get_state()})


def go_on(
    file: Path, same: str, student: Network, optimizer: torch.optim.SGD, draw: torch.Generator
) -> int:
    """The steps that were done before; 0 where the file is missing, damaged or of another one."""
    try:
        content, tensors = unpack("distillation", file.read_bytes())
    except (UserError, FileNotFoundError):
        return 0
    if content["same"] != same:
        return 0
    student.load_state_dict(section(tensors, "student"))
    momentum = section(tensors, "momentum")
    for name, weight in student.named_parameters():
        if name in momentum:
            optimizer.state[weight]["momentum_buffer"] = momentum[name].to(weight)
    draw.set_state(tensors["draw"])
    return int(content["step"])


def balanced(teacher: FusedModel, images: Tensor) -> Tensor:
    """Weights under which every class that the teacher predicts comes up as often."""
    predicted = torch.cat(list(in_parts(teacher, images.numpy()))).argmax(dim=1)
    counts = torch.bincount(predicted, minlength=len(teacher.class_names))
    return counts.float().reciprocal()[predicted]


def as_model(student: Network, teacher: FusedModel) -> FusedModel:
    """Its scores are logits of the teacher's probabilities: temperature 1."""
    student = student.to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]
    prototypes = student.prototypes.detach().clone()
    card = replace(
        teacher.card,
        models=[teacher.card.student],
        temperature=1.0,
        fusion=f"student of {teacher.card.fusion}",
        start=None,
        zoom=1.0,
        mirrored=False,
    )
    return FusedModel([student], PrototypeHead(weights=torch.ones(1), prototypes=prototypes), card)
