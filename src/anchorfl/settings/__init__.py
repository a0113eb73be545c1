"""From words, presets and defaults to a checked experiment."""

from anchorfl.settings.own_code import import_named, listed_fusions, own_code
from anchorfl.settings.presets import (
    PRESETS,
    is_format_2,
    preset_names,
    preset_settings,
    read_preset,
    read_yaml,
    whole_images,
)
from anchorfl.settings.resolving import (
    SMALL_IMAGE,
    align_keys,
    all_keys,
    build_align,
    by_section,
    check_words,
    flatten,
    in_full,
    parse_words,
    resolve,
    usual_crop,
    usual_filters,
)

__all__ = [
    "PRESETS",
    "SMALL_IMAGE",
    "align_keys",
    "all_keys",
    "build_align",
    "by_section",
    "check_words",
    "flatten",
    "import_named",
    "in_full",
    "is_format_2",
    "listed_fusions",
    "own_code",
    "parse_words",
    "preset_names",
    "preset_settings",
    "read_preset",
    "read_yaml",
    "resolve",
    "usual_crop",
    "usual_filters",
    "whole_images",
]
