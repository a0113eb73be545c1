"""A fused model measured where the images are: a site counts what it held out, the server adds up."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from anchorfl.data import read_site_folder, refuse_unreadable
from anchorfl.errors import UserError
from anchorfl.files import write_whole
from anchorfl.measures import balanced_accuracy, macro_f1
from anchorfl.messages import checked_name
from anchorfl.model import Card, FusedModel, confusion_of
from anchorfl.runs import Run

MOST_COUNTED = 10**9


def score_site(
    model: FusedModel, data: Path, name: str, out: Path, holdout: float | None, skip_bad: bool = False
) -> tuple[Tensor, int]:
    """What was taken for what at a site, counted, and the file that leaves it.

    And how many files cannot be read, which are left out where the site chose so.
    """
    checked_name(name)
    share = share_held_out(model.card, holdout)
    _, held, bad = read_site_folder(data, model.class_names, share, model.shape)
    if not skip_bad:
        refuse_unreadable(bad)
    if not len(held):
        raise UserError(f"--data {data}: with a share of {share:g} no image here is held out")
    confusion = confusion_of(model, held)
    content = {
        "site": name,
        "model": model.hash,
        "fusion": model.card.fusion,
        "classes": model.class_names,
        "confusion": confusion.long().tolist(),
    }
    write_whole(out, json.dumps(content, indent=1) + "\n")
    return confusion, len(bad)


def share_held_out(card: Card, holdout: float | None) -> float:
    """The model's own, where it knows: another would count images that it was trained on."""
    if card.holdout is None and holdout is None:
        raise UserError("this model does not say what was held out; add --holdout, as in site train")
    if card.holdout is not None and holdout not in (None, card.holdout):
        raise UserError(
            f"--holdout {holdout:g}: this model was trained on all but {card.holdout:g} of every site's"
            " images, and is measured on those; leave --holdout out"
        )
    share = card.holdout if holdout is None else holdout
    assert share is not None  # one of them is known
    return share


@dataclass(frozen=True)
class Scores:
    """What the sites counted, by name and together; `missing` are those that did not."""

    fusion: str
    class_names: Sequence[str]
    by_site: dict[str, Tensor]
    missing: list[str]

    @property
    def total(self) -> Tensor:
        return torch.stack(list(self.by_site.values())).sum(dim=0)


def share_right(confusion: Tensor) -> float:
    return float(confusion.diagonal().sum() / confusion.sum())


def collect_scores(run: Run, model: FusedModel, files: Sequence[Path]) -> Scores:
    """Add up what sites counted, and write it into the run's summary."""
    run.require_end()
    if not run.of_real_sites:
        raise UserError(f"{run.folder}: was not made by server fuse")
    sites, by_site = run.summary.sites or [], {}
    for file in files:
        site, counts = read_score(file, model)
        if site not in sites:
            raise UserError(f"{file}: is of {site}, which is none of the model's {', '.join(sites)}")
        if site in by_site:
            raise UserError(f"{file}: is a second score of {site}")
        by_site[site] = counts
    before = dict(zip(sites, run.summary.site_accuracy or [], strict=False))
    lost = [site for site, known in before.items() if known is not None and site not in by_site]
    if lost:
        raise UserError(
            f"{run.folder}: holds scores of {', '.join(lost)} too; name the files of all at once"
        )
    fusion = model.card.fusion
    missing = [site for site in sites if site not in by_site]
    scores = Scores(fusion, model.class_names, by_site, missing)
    total = scores.total
    summary = replace(
        run.summary,
        final_accuracy={fusion: share_right(total)},
        balanced_accuracy={fusion: balanced_accuracy(total)},
        macro_f1={fusion: macro_f1(total)},
        confusion={fusion: total.long().tolist()},
        site_accuracy=[share_right(by_site[site]) if site in by_site else None for site in sites],
    )
    run.files.write_summary(summary)
    return scores


def read_score(file: Path, model: FusedModel) -> tuple[str, Tensor]:
    """A site's name and its counts, which must be counts of this model's answers."""
    try:
        content = json.loads(file.read_text())
        counts = torch.tensor(content["confusion"])
        site, classes = checked_name(content["site"]), list(content["classes"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError, RuntimeError, OverflowError):
        raise UserError(f"{file}: is no score that a site wrote") from None
    names, fusion = model.class_names, model.card.fusion
    if counts.shape != (len(names), len(names)) or classes != names:
        raise UserError(f"{file}: is of other classes than the model")
    if content.get("fusion") != fusion:
        raise UserError(f"{file}: is of fusion {content.get('fusion')}, the model of {fusion}")
    if content.get("model") != model.hash:
        raise UserError(f"{file}: is of another model; {site} must measure this one with site evaluate")
    whole = counts.dtype == torch.int64
    if not whole or (counts < 0).any() or (counts > MOST_COUNTED).any() or not counts.any():
        raise UserError(f"{file}: has counts that cannot be")
    return site, counts.double()
