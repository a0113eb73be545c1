"""The base terms by name: B is the sum of those that a method lists; V4 (diary 004) has all four."""

from __future__ import annotations

from anchorfl.objective.losses import (
    cross_entropy,
    prototype_self_contrast,
    supervised_contrast,
    view_contrast,
)
from anchorfl.objective.terms import BASE_TERMS, BaseTerm

PROTOTYPE_TEMPERATURE = 1.0
VIEW_TEMPERATURE = 0.07

BASE_TERMS.register("classification")(
    BaseTerm("CE(f P', y)", lambda views: cross_entropy(views.logits, views.labels, views.weights))
)
BASE_TERMS.register("supervised_contrast")(
    BaseTerm(
        "SupCon(f, y; 0.07)",
        lambda views: supervised_contrast(views.features, views.labels, views.weights),
    )
)
BASE_TERMS.register("prototype_feature")(
    BaseTerm(  # at temperature 1 the same number as classification: the diary's sum holds it twice
        "CE(f P' / 1, y)",
        lambda views: cross_entropy(views.logits / PROTOTYPE_TEMPERATURE, views.labels, views.weights),
    )
)
BASE_TERMS.register("prototype_self")(
    BaseTerm("CE(P P', 0..C-1)", lambda views: prototype_self_contrast(views.prototypes))
)
BASE_TERMS.register("view_contrast")(
    BaseTerm(
        "SimCLR(g, the first quarter of f; 0.07)",
        lambda views: view_contrast(views.features, views.weights, VIEW_TEMPERATURE),
    )
)
