"""One colour per fusion, the same on every page and figure."""

from __future__ import annotations

from zlib import crc32

PALETTE = ("#0b84b5", "#d9730d", "#0f9b86", "#c2388c", "#8458c9", "#9a6b4f", "#5d7f1f", "#b0382f")
NEUTRAL = "#888888"
"""Of what is no fusion: a single client, a bound."""
FUSIONS = (
    "sketch-guided",
    "class-mean",
    "feature-mean",
    "joint-sketch-ridge",
    "sketch-lda",
    "softmax-mean",
    "class-weighted",
    "iffi",
)
"""Those that meet in one figure most often, each with a colour of its own."""


def fusion_colour(name: str) -> str:
    """A fixed one; of two others that share it, the name beside the line decides."""
    place = FUSIONS.index(name) if name in FUSIONS else crc32(name.encode())
    return PALETTE[place % len(PALETTE)]
