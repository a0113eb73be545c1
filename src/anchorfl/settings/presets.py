"""Presets and the config.yaml of runs, also of earlier formats, as settings."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from anchorfl.config import CONFIG_FORMAT, DataOptions
from anchorfl.errors import UserError
from anchorfl.registry import DATASETS, METHODS, suggestion
from anchorfl.settings.resolving import flatten, usual_crop

BESIDE_SETTINGS = ("format", "code")
"""What config.yaml holds that is no setting."""
PRESETS = Path(__file__).parents[1] / "presets"
"""The presets and sweeps that come with the package."""


class PlainLoader(yaml.SafeLoader):
    """Values as they are written: an alias could stand for a billion of them."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("an alias")
        return super().compose_node(parent, index)


def preset_names() -> list[str]:
    """presets/v4-digits.yaml and the others that come with the package."""
    found = (path.relative_to(PRESETS.parent) for path in PRESETS.rglob("*.yaml"))
    return sorted(path.as_posix() for path in found)


def preset_place(path: Path, kind: str) -> Path:
    """The file itself; where there is none, `presets/NAME.yaml` is the package's own."""
    if path.exists() or path.parts[:1] != ("presets",):
        return path
    known = preset_names()
    if path.as_posix() not in known:
        raise UserError(f"{kind} {path}: No such file{suggestion(path.as_posix(), known)}")
    return PRESETS.parent / path


def read_yaml(path: Path, kind: str) -> Any:
    """What a user's file holds; `kind` states in an error what it was meant to be."""
    try:
        return PlainLoader(preset_place(path, kind).read_text()).get_single_data()
    except OSError as error:
        raise UserError(f"{kind} {path}: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError, ValueError, RecursionError):
        raise UserError(f"{kind} {path}: is not valid YAML (without aliases)") from None


def read_preset(path: Path) -> dict[str, object]:
    """A preset, or the config.yaml of a run: nested keys, `method` among them."""
    return preset_settings(read_yaml(path, "preset"), path)


def preset_settings(content: Any, path: Path) -> dict[str, object]:
    """The settings in a preset's content."""
    if not isinstance(content, dict) or not isinstance(content.get("method"), str):
        raise UserError(f"preset {path}: needs a line such as method: v4")
    settings = flatten({key: value for key, value in content.items() if key not in BESIDE_SETTINGS})
    if "upload.sketch_filters" in settings:  # its name up to format 3
        settings["describe.filters"] = settings.pop("upload.sketch_filters")
    earlier = format_of(content) if "device" in content else CONFIG_FORMAT
    if earlier < 5:
        settings.pop("fusion.sketch-guided.ridge", None)  # its guide, up to format 3
        settings.pop("fusion.sketch-guided.guidance", None)  # scaled otherwise, up to format 4
    if earlier < 6:
        settings = {**whole_images(settings), **settings}
    return of_format_2(settings) if is_format_2(content) else settings


def format_of(content: Mapping[str, object]) -> int:
    """Of the config.yaml of a run; up to format 2 none is written."""
    written = content.get("format", 2)
    return written if isinstance(written, int) else CONFIG_FORMAT


def whole_images(settings: Mapping[str, object]) -> dict[str, object]:
    """What runs up to format 5, and tasks, meant where no data set had a crop and a zoom of its own."""
    name, size = str(settings.get("data.name")), settings.get("data.size")
    own = DATASETS.get(name).size if name in DATASETS else None
    pixels = own or (size if isinstance(size, int) else DataOptions.size)
    return {"data.crop": usual_crop(pixels), "model.zoom": 1.0}


def is_format_2(content: Mapping[str, object]) -> bool:
    """Whether this is the config.yaml of a run (its device is always written) from before format 3."""
    return "format" not in content and "device" in content


def of_format_2(settings: dict[str, object]) -> dict[str, object]:
    """The config.yaml of a run from before format 3, in today's words.

    Alignment then pulled the batch's classes alone, V11 annealed by the epoch, and feature-mean
    normalised each client's features first.
    """
    entry = METHODS.get(str(settings["method"]))
    if entry.target == "etf":
        settings.setdefault("align.classes", "batch")
    if "align.progress" in entry.defaults:
        settings.setdefault("align.progress", "epoch")
    names = [name.strip() for name in str(settings.get("fusion", "")).split(",") if name.strip()]
    renamed = ["normalised-feature-mean" if name == "feature-mean" else name for name in names]
    return {**settings, "fusion": ",".join(renamed)} if names else settings
