"""What is in a message, part by part, in words for somebody who must decide whether it may leave."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from anchorfl.describe import FACTOR_PARTS
from anchorfl.messages.upload import Upload
from anchorfl.tensors import Tensors

FACTORED = (
    "per site: a server reconstructs each site's sums; with describe.sums=fp32 it needs the total"
)
KNOWN = {"site", "network", "task", "samples", "telemetry"}

WEIGHTS = (
    "the trained network",
    "per site",
    "a network can remember single images of small classes; train on more images, or for fewer rounds",
)
JOINT = (
    "sums of products of features under everybody's encoders, and by class",
    "a sum, of which the server needs the total alone",
    "as the sums of descriptions",
)
WORDS: dict[str, tuple[str, str, str]] = {
    "class_counts": (
        "images per class",
        "per site",
        "how often each class occurs here; --counts large leaves small classes out",
    ),
    "statistics/class_means": (
        "the mean feature of each class",
        "per site",
        "the typical image of a class; upload.min_count leaves small classes out",
    ),
    "statistics/feature_moments": (
        "mean and mean square of each feature",
        "per site",
        "little: two numbers per feature over all images",
    ),
    "statistics/sketch_moments": (
        "sums of products of image descriptions, and by class",
        "a sum, of which the server needs the total alone",
        "with fewer images than numbers in a description, their span; more images hide each other",
    ),
    "statistics/joint_moments": JOINT,
    "statistics/joint_sketch_moments": JOINT,
    "telemetry": (
        "losses, lambda and norms of every round",
        "per site",
        "how hard the data are to learn; left out without --telemetry",
    ),
    "header": ("names, shapes, the task's hash, a digest", "per site", "the site's name"),
}


@dataclass(frozen=True)
class Part:
    """Of a message: how many bytes it is, and what somebody could learn from it."""

    name: str
    bytes: int
    shape: str
    is_what: str
    of_whom: str
    reveals: str


def manifest(upload: Upload, content: Mapping[str, Any], tensors: Tensors, size: int) -> list[Part]:
    """The parts of an upload of so many bytes: every tensor, telemetry, and the header that is left.

    `content` and `tensors` are what the bytes hold, the parts that this program does not know among it.
    """
    found = [part(name, value) for name, value in sorted(tensors.items())]
    strange = {key: value for key, value in content.items() if key not in KNOWN}
    if upload.telemetry:
        length = len(json.dumps(content["telemetry"]))
        found.append(worded("telemetry", "telemetry", length, f"{len(upload.telemetry)} rounds"))
    if strange:
        length = len(json.dumps(strange))
        found.append(worded("unknown", "unknown", length, ", ".join(map(str, strange))[:80]))
    rest = size - sum(each.bytes for each in found)
    return [*found, worded("header", "header", rest, "")]


def part(name: str, value: Tensor) -> Part:
    kind = f"{' x '.join(map(str, value.shape)) or '1'} {str(value.dtype).removeprefix('torch.')}"
    return worded(name, name.rpartition("/")[0] or name, value.nbytes, kind)


def worded(name: str, kind: str, size: int, shape: str) -> Part:
    unknown = ("unknown to this program", "per site", "anything: ask who put it there")
    what, of_whom, reveals = WEIGHTS if kind.startswith("weights") else WORDS.get(kind, unknown)
    if kind.endswith("moments") and name.rpartition("/")[2] in FACTOR_PARTS:
        of_whom = FACTORED
    return Part(name, size, shape, what, of_whom, reveals)


def by_kind(parts: list[Part]) -> Iterator[Part]:
    """Weights and each statistic in one line, as a reader wants them first."""
    grouped: dict[str, list[Part]] = {}
    for each in parts:
        pieces = each.name.split("/")
        kind = "/".join(pieces[:2]) if pieces[0] == "statistics" else pieces[0]
        grouped.setdefault(kind, []).append(each)
    for kind, members in grouped.items():
        size = sum(each.bytes for each in members)
        shape = members[0].shape if len(members) == 1 else f"{len(members)} tensors"
        first = members[0]
        yield Part(kind, size, shape, first.is_what, first.of_whom, first.reveals)
