"""The table of methods: a method is data, and the training loop never asks for its name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from anchorfl.registry import Registry


@dataclass(frozen=True)
class Method:
    """A named composition of base terms, anchors, a balance and defaults of its own."""

    summary: str
    formula: str
    source: str
    balance: str = "none"
    base_terms: tuple[str, ...] = (
        "classification",
        "supervised_contrast",
        "prototype_feature",
        "prototype_self",
    )
    anchors: bool = False
    defaults: Mapping[str, object] = field(default_factory=dict)


METHODS: Registry[Method] = Registry("method", __name__)

METHODS.register("v4")(
    Method(
        summary="the FAFI baseline: no alignment",
        formula="B = CE(f P', y) + SupCon(f, y; 0.07) + CE(f P' / 1, y) + CE(P P', 0..C-1)",
        source="seed 004; FAFI (ICML 2025)",
    )
)
METHODS.register("v7")(
    Method(
        summary="prototypes pulled to shared ETF anchors with a fixed weight",
        formula="B + lambda A,  A = mean over present classes and dimensions of (P - anchor)^2",
        source="seed 001",
        balance="fixed",
        anchors=True,
        defaults={"align.lambda": 5.0},
    )
)
