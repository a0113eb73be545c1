"""Presets and the config.yaml of runs as settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from anchorfl.config import CONFIG_FORMAT
from anchorfl.errors import UserError
from anchorfl.registry import suggestion
from anchorfl.settings.resolving import flatten

BESIDE_SETTINGS = ("format", "code")
"""What config.yaml holds that is no setting."""
ALWAYS = {"data", "partition", "model", "train", "upload", "seed", "device"}
"""What the config.yaml of a run has held in every format; the first did not name itself."""
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
    written = content.get("format", 1 if content.keys() >= ALWAYS else CONFIG_FORMAT)
    if written != CONFIG_FORMAT:
        raise UserError(f"{path}: is of format {written}; this anchorfl reads format {CONFIG_FORMAT}")
    return flatten({key: value for key, value in content.items() if key not in BESIDE_SETTINGS})
