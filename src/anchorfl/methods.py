"""The table of methods: a method is data, and the training loop never asks for its name.

What a method's lambda does is stated by its balance: the formula, what the weights see, the stationary
point, the source.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from anchorfl.registry import Registry

FAFI = ("classification", "supervised_contrast", "prototype_feature", "prototype_self")
WITHOUT_SUPCON = ("classification", "prototype_feature", "prototype_self")


@dataclass(frozen=True)
class Method:
    """A named composition of base terms, what clients align to, a balance and defaults.

    `target` names an align target: `etf` (prototypes to fixed anchors), `bank` (features against a
    public bank) or nothing. Schedule, start, stages and learning rates are options of the balance.
    A method without base terms trains nothing. `server` names the server's half of a method of many
    rounds, `needs` the statistics it asks for; a one-shot method has none. `diary` are the settings
    behind the diary's tables, where they differ from our defaults.
    """

    summary: str
    balance: str = "none"
    target: str | None = "etf"
    defaults: Mapping[str, object] = field(default_factory=dict)
    base_terms: tuple[str, ...] = FAFI
    diary: Mapping[str, object] = field(default_factory=dict)
    server: str | None = None
    needs: tuple[str, ...] = ()

    @property
    def trains(self) -> bool:
        return bool(self.base_terms)


METHODS: Registry[Method] = Registry("method")

DIARY: dict[str, object] = {
    "partition.kind": "diary",
    "partition.alpha": 0.05,
    "train.reset_optimizer": True,
    "upload.batchnorm": "running",
    "fusion": "feature-mean",
    "seed": 1,
}
DIARY_004 = {
    **DIARY,
    "data.name": "cifar10",
    "partition.kind": "diary-overlap",
    "train.rounds": 6,
    "train.local_epochs": 5,
}
DIARY_001 = {**DIARY, "data.name": "cifar10", "train.rounds": 50}
DIARYS_SIGMAS = {"align.start": "entropy", "align.sigma_lr": 0.005}
DIARY_000 = {
    **DIARY,
    **DIARYS_SIGMAS,
    "data.name": "cifar100",
    "train.rounds": 10,
    "train.local_epochs": 10,
    "align.lambda_max": 20.0,
}
DIARY_002 = {
    **DIARY,
    **DIARYS_SIGMAS,
    "data.name": "svhn",
    "data.flip": True,
    "data.crop": 0.2,
    "model.zoom": 1.0,
    "train.rounds": 50,
    "train.batch_size": 256,
    "seed": 114514,
}

LINEAR = {"align.schedule": "linear"}
COSINE = {"align.schedule": "cosine"}
BY_ROUND = {"align.progress": "round"}
PUBLIC = {"partition.public": 0.1, "train.local_epochs": 5, "train.reset_optimizer": True}
SUPCON = {"align.contrast": "supcon", "align.temperature": 0.07}
AS_CODED = {
    **PUBLIC,
    **SUPCON,
    "align.later": 1.0,
    "align.teacher_loss": "cross-entropy",
    "align.teacher_augment": False,
    "align.teacher_start": "own",
}


def bank(summary: str, balance: str, defaults: Mapping[str, object]) -> Method:
    """V6's relatives: the contrast with the bank stands in the place of B's own."""
    return Method(summary, balance, "bank", defaults, WITHOUT_SUPCON, DIARY_004)


def unaligned(summary: str, *base_terms: str, **more: Any) -> Method:
    """B alone: no lambda, and nothing to align to."""
    return Method(summary, target=None, base_terms=base_terms, **more)


for name, method in {
    "v4": unaligned("the FAFI baseline: no alignment", *FAFI, diary=DIARY_004),
    "cross-entropy": unaligned("classification alone, prototypes as a linear head", "classification"),
    "v4-views": unaligned(
        "V4, and two views of an image against all others: keeps what a start knows of other classes",
        *FAFI,
        "view_contrast",
    ),
    "simclr": unaligned(
        "two views of an image against all others, no label read: how a start is trained",
        "view_contrast",
        defaults={"fusion": "class-mean,joint-ridge"},
    ),
    "none": unaligned(
        "nothing is trained: one pass for statistics, uploads without weights",
        defaults={"train.rounds": 1, "fusion": "sketch-lda,sketch-ridge"},
    ),
    "fedavg": unaligned(
        "many rounds: cross entropy on a linear head, weights averaged after each",
        "classification",
        defaults={"train.reset_optimizer": True, "fusion": "parameter-mean"},
        server="fedavg",
    ),
    "fedproto": Method(
        "many rounds: features pulled to the class means of all clients' round before",
        "fixed",
        "class-means",
        defaults={"align.lambda": 1.0, "fusion": "class-mean,softmax-mean"},
        base_terms=("classification",),
        server="fedproto",
        needs=("class_means",),
    ),
    "v6": Method(
        "two stages per round, as diary 004 words it: contrast with a public bank, then V4",
        "stages",
        "bank",
        PUBLIC,
        diary=DIARY_004,
    ),
    "v6-code": bank("V6 as its code was: SupCon with the bank in both stages", "stages", AS_CODED),
    "v6-curriculum": bank("V6 with a weight that rises in a round", "curriculum", {**PUBLIC, **SUPCON}),
    "v6-adaptive": bank("V6 with a weight that rises on success", "adaptive", {**PUBLIC, **SUPCON}),
    "v7": Method(
        "prototypes pulled to shared ETF anchors, lambda fixed at 5",
        "fixed",
        diary={**DIARY_001, **LINEAR},
    ),
    "v7-linear": Method("V7, annealed to 0", "fixed", defaults=LINEAR, diary=DIARY_001),
    "v9": Method("lambda from each client's label entropy", "entropy", diary={**DIARY_001, **LINEAR}),
    "v9-linear": Method("V9, annealed to 0", "entropy", defaults=LINEAR, diary=DIARY_001),
    "v10": Method(
        "lambda learned by two variances, coupled with the weights", "coupled", diary=DIARY_001
    ),
    "v10-decoupled": Method("V10's lambda, the weights seeing B + lambda A", "decoupled"),
    "v11-linear": Method(
        "V10 times 2 sl2, so that B keeps weight 1; A annealed by the round",
        "rescaled",
        defaults={**LINEAR, **BY_ROUND},
        diary=DIARY_000,
    ),
    "v11-cosine": Method(
        "V11 with the cosine schedule", "rescaled", defaults={**COSINE, **BY_ROUND}, diary=DIARY_000
    ),
    "v12": Method(
        "learned, and annealed for the variances and the weights alike; explodes as A -> 0",
        "annealed",
        diary=DIARY_002,
    ),
    "v12-cosine": Method("V12 with the cosine schedule", "annealed", defaults=COSINE),
    "v12-raw": Method(
        "V12 whose weights see the whole lambda", "annealed-raw", diary={**DIARY_002, **COSINE}
    ),
    "v12-gamma": Method("V12 with a floor under its variance: lambda is bounded", "annealed-gamma"),
    "weight-annealed": Method("learned on the whole A, annealed for the weights", "weight-annealed"),
    "log-annealed": Method("the log-variance term annealed instead of A", "log-annealed"),
    "log-annealed-gamma": Method("log-annealed with V12-gamma's floor", "log-annealed-gamma"),
    "closed-form": Method("the stationary lambda itself: nothing to learn or wait for", "closed-form"),
    "revised-uncertainty": Method("variances with a penalty that stays positive", "revised"),
}.items():
    METHODS.register(name)(method)


@METHODS.family("torchjd")
def scalarized(name: str) -> Method:
    return Method(f"B and A combined by TorchJD's {name}", f"torchjd:{name}")


@METHODS.family("v6")
def weighed_by(balance: str) -> Method:
    """Any balance may weigh the bank's contrast: `v6:coupled`, `v6:torchjd:UW`."""
    return bank(f"the contrast with a public bank, weighed by {balance}", balance, {**PUBLIC, **SUPCON})
