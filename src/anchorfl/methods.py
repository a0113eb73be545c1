"""The table of methods: a method is data, and the training loop never asks for its name.

What a method's lambda does is stated by its balance: the formula, what the weights see, the stationary
point, the source.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from anchorfl.registry import METHODS

FAFI = ("classification", "supervised_contrast", "prototype_feature", "prototype_self")


@dataclass(frozen=True)
class Method:
    """A named composition of base terms, what clients align to, a balance and defaults.

    `target` names an align target: `etf` (prototypes to fixed anchors), `bank` (features against a
    public bank) or nothing. Schedule, start, stages and learning rates are options of the balance.
    """

    summary: str
    balance: str = "none"
    target: str | None = "etf"
    defaults: Mapping[str, object] = field(default_factory=dict)
    base_terms: tuple[str, ...] = FAFI


LINEAR = {"align.schedule": "linear"}
COSINE = {"align.schedule": "cosine"}
PUBLIC = {"partition.public": 0.1, "train.local_epochs": 5, "train.reset_optimizer": True}

for name, method in {
    "v4": Method("the FAFI baseline: no alignment", target=None),
    "v6": Method(
        "two stages per round: contrast with a public bank, then V4", "stages", "bank", PUBLIC
    ),
    "v6-curriculum": Method("V6 with a weight that rises in a round", "curriculum", "bank", PUBLIC),
    "v6-adaptive": Method("V6 with a weight that rises on success", "adaptive", "bank", PUBLIC),
    "v7": Method("prototypes pulled to shared ETF anchors, lambda fixed at 5", "fixed"),
    "v7-linear": Method("V7, annealed to nothing", "fixed", defaults=LINEAR),
    "v9": Method("lambda from each client's label entropy", "entropy"),
    "v9-linear": Method("V9, annealed to nothing", "entropy", defaults=LINEAR),
    "v10": Method("lambda learned by two variances, coupled with the weights", "coupled"),
    "v10-decoupled": Method("V10's lambda, the weights seeing B + lambda A", "decoupled"),
    "v11-linear": Method("V10 rescaled to undivided B, A annealed", "rescaled", defaults=LINEAR),
    "v11-cosine": Method("V11 with the cosine schedule", "rescaled", defaults=COSINE),
    "v12": Method("learned and annealed in both places; explodes as A -> 0", "annealed"),
    "v12-cosine": Method("V12 with the cosine schedule", "annealed", defaults=COSINE),
    "v12-raw": Method("V12 whose weights see the whole lambda", "annealed-raw"),
    "v12-gamma": Method("V12 with a floor under its variance: lambda is bounded", "annealed-gamma"),
    "weight-annealed": Method("learned on the whole A, annealed for the weights", "weight-annealed"),
    "log-annealed": Method("the reward for a small variance annealed instead", "log-annealed"),
    "log-annealed-gamma": Method("log-annealed with V12-gamma's floor", "log-annealed-gamma"),
    "closed-form": Method("the stationary lambda itself: nothing to learn or wait for", "closed-form"),
    "revised-uncertainty": Method("variances with a penalty that stays positive", "revised"),
}.items():
    METHODS.register(name)(method)


@METHODS.family("torchjd")
def scalarized(name: str) -> Method:
    return Method(f"B and A combined by TorchJD's {name}", f"torchjd:{name}")
