"""How a start is made: one client trains on synthetic pictures alone, and describes some of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from anchorfl.compute import choose_device, images_at_once, working_precision
from anchorfl.config import Config
from anchorfl.data import ImageFacts, Shape, Split, synthetic_pictures
from anchorfl.describe import Describer, Sketch, Stages, in_eight_bits, principal_basis
from anchorfl.errors import UserError
from anchorfl.files import write_whole
from anchorfl.loop import stepper_for
from anchorfl.messages import Start, digest, pack, unpack
from anchorfl.nn import build_encoder, public_name
from anchorfl.prepare import Setup, new_task
from anchorfl.settings import resolve, usual_crop, usual_filters
from anchorfl.site import Site, Trainer
from anchorfl.tensors import Tensors

FIRST = 100
"""Pictures that must be the same where a making that was cut off goes on."""
MEAN, STD = 0.5, 0.25
"""How the pictures are normalised."""


@dataclass(frozen=True)
class StartOptions:
    """`pictures` of `shape` are seen `epochs` times each, two views at a time.

    `encoder` is a built-in one or code of the user's own, from saved `weights` if it has any; with 0
    epochs these are taken as they are. `width` numbers are the widest description it can give. A view
    keeps `crop` of a picture at least (unset: as in training on images of that size), and is not
    mirrored: left and right matter where there is something to read. The rates were chosen on held-out
    CIFAR-10 training images.
    """

    shape: Shape
    encoder: str
    pictures: int
    epochs: int
    weights: str | None = None
    width: int = 6000
    crop: float | None = None
    batch_size: int = 256
    lr: float = 0.3
    weight_decay: float = 5e-4
    seed: int = 0


def make_start(
    options: StartOptions, on_pictures: Callable[[int], None], keep: Path | None = None
) -> Start:
    """Train on two views of every picture against all others, then fix a description.

    `on_pictures` is told how many more were trained on. `keep` is a file to write the state to after
    every epoch, and to go on from where the same making was cut off.
    """
    device = choose_device("auto")
    facts = facts_of(options)
    config = config_of(options, device)
    trainer = Trainer(Setup(new_task(config, facts), config), device, stepper_for(config, device))
    images = synthetic_pictures(options.pictures, options.shape, options.seed, device)
    labels = np.zeros(len(images), dtype=np.int64)  # all of one class: the method reads no label
    client = Site(trainer, Split(images.numpy(), labels), "0")
    same = digest(asdict(options), {**trainer.task.tensors(), "pictures": images[:FIRST]})
    begun = go_on(keep, same, client) if keep else 0
    on_pictures(begun * options.pictures)
    for epoch in range(begun, options.epochs):
        client.train_round(epoch, on_pictures)
        if client.halted:
            raise UserError(f"the loss is no longer finite in epoch {epoch + 1}; take another seed")
        if keep:
            state = client.checkpoint()
            write_whole(keep, pack("start in the making", {"epoch": epoch + 1, "same": same}, state))
    trainer.stepper.close()
    weights = client.upload().weights
    own = {name.removeprefix("encoder."): weights[name] for name in weights if "encoder." in name}
    return describing(options, facts, own, images, device)


def facts_of(options: StartOptions) -> ImageFacts:
    """An encoder of one's own may have a `normalisation` of its own: means, and deviations."""
    channels = options.shape[0]
    usual = (MEAN,) * channels, (STD,) * channels
    mean, std = getattr(build_encoder(options.encoder, options.shape), "normalisation", usual)
    return ImageFacts(options.shape, 1, tuple(mean), tuple(std))


def config_of(options: StartOptions, device: torch.device) -> Config:
    settings: dict[str, object] = {
        "model.name": options.encoder,
        "model.weights": options.weights,
        "data.flip": False,
        "data.crop": usual_crop(options.shape[1]) if options.crop is None else options.crop,
        "train.rounds": max(options.epochs, 1),
        "train.batch_size": options.batch_size,
        "train.lr": options.lr,
        "train.weight_decay": options.weight_decay,
        "train.schedule": "cosine",
        "train.clip_norm": 0.0,
        "upload.batchnorm": "recomputed" if options.epochs else "running",
        "seed": options.seed,
    }
    config = resolve("simclr", settings)
    precision = working_precision(config.train.precision, device)
    return replace(config, train=replace(config.train, precision=precision))


def go_on(file: Path, same: str, client: Site) -> int:
    """The epochs that were done before; 0 where the file is missing, damaged or of another start."""
    try:
        content, tensors = unpack("start in the making", file.read_bytes())
    except (UserError, FileNotFoundError):
        return 0
    if content.get("same") != same:
        return 0
    client.restore(tensors)
    return int(content["epoch"])


@torch.no_grad()
def describing(
    options: StartOptions,
    facts: ImageFacts,
    weights: Tensors,
    images: Tensor,
    device: torch.device,
) -> Start:
    """The description that the encoder gives, squeezed to where synthetic pictures differ most."""
    shape = options.shape
    encoder = build_encoder(options.encoder, shape)
    encoder.load_state_dict(weights)
    stages = Stages(encoder, public_name(options.encoder), facts, shape, mirrored=True)
    sketch = Sketch.drawn(shape, usual_filters(shape[1]), options.seed, mirrored=True)
    describer = Describer(sketch, stages).to(device)
    some = images[: options.width * 3 // 2]
    parts = some.tensor_split(-(-len(some) // images_at_once(device, shape[1] * shape[2])))
    rows = torch.cat([describer.everything(part.to(device).float() / 255) for part in parts])
    basis = in_eight_bits(principal_basis(rows, options.width)).cpu()
    kept = {name: value.detach().cpu().clone() for name, value in weights.items()}
    tensors = {"kernels": sketch.kernels.cpu(), "offsets": sketch.offsets.cpu()}
    name = public_name(options.encoder)
    crop = config_of(options, device).data.crop
    card = {**asdict(options), "encoder": name, "shape": list(shape), "crop": crop}
    card["weights"] = None if options.weights is None else Path(options.weights).name
    return Start(name, facts, kept, tensors, basis, card)
