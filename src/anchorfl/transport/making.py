"""The task of real sites: settings, class names, and what all start from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from anchorfl.config import Config
from anchorfl.data import DATASETS, ImageFacts
from anchorfl.errors import UserError
from anchorfl.messages import Task
from anchorfl.methods import METHODS
from anchorfl.prepare import new_task
from anchorfl.registry import is_in_a_file
from anchorfl.server import check_experiment
from anchorfl.settings import fill_by_images, listed_fusions, resolve


def task_for_sites(
    words: Mapping[str, object], names: Sequence[str], grey: bool
) -> tuple[Task, Config]:
    """Refused where sites could not do what it asks for."""
    settings = dict(words)
    method = str(settings.pop("method"))
    fusions = listed_fusions(settings.get("fusion"))
    for name in (method, str(settings.get("data.name")), *fusions):
        if is_in_a_file(name):
            raise UserError(
                f"{name}: sites import no code that a task names; install it there as a package"
            )
    config = resolve(method, settings)
    spec, size = DATASETS.get(config.data.name), config.data.size
    channels = 1 if grey else 3
    if spec.size is not None:
        raise UserError(f"data.name={config.data.name}: a task is for images of your own; use sites")
    if config.target is not None and config.target.needs_public:
        raise UserError(f"method {method} needs public images at the server, which a task has none of")
    if METHODS.get(method).server is not None:
        raise UserError(f"method {method} has many rounds; files go down and up once")
    config = fill_by_images(config, size, None)
    check_experiment(config)
    shape = (channels, size, size)
    facts = ImageFacts(shape, len(names), spec.mean[:channels], spec.std[:channels])
    return new_task(config, facts, tuple(names)), config


def class_names(file: Path) -> list[str]:
    """One a line."""
    try:
        lines = file.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError:
        raise UserError(f"{file}: is no text in UTF-8; save it so") from None
    names = [line.strip() for line in lines if line.strip()]
    if len(names) < 2:
        raise UserError(f"{file}: must hold two class names or more, one a line")
    for name in names:
        if names.count(name) > 1:
            raise UserError(f"{file}: {name!r} stands there {names.count(name)} times; leave one")
        if "/" in name or name.startswith("."):
            raise UserError(f"{file}: {name!r} is no name of a folder")
    return names
