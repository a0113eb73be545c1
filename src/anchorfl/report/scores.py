"""A fused model measured where the images are: a site counts what it held out, the server adds up."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch
from rich.console import Console

from anchorfl.data import read_site_folder
from anchorfl.errors import UserError
from anchorfl.files import write_whole
from anchorfl.predictor import Card, confusion_of, open_predictor, predictor_of
from anchorfl.report.console import say
from anchorfl.report.numbers import percent
from anchorfl.report.page import write_page
from anchorfl.report.tables import plain_table
from anchorfl.runs import read_run
from anchorfl.server import balanced_accuracy, macro_f1
from anchorfl.wire import checked_name

MOST_COUNTED = 10**9


def score_site(
    console: Console, model: Path, data: Path, name: str, out: Path, holdout: float | None
) -> None:
    checked_name(name)
    predictor = open_predictor(model)
    share = share_held_out(model, predictor.card, holdout)
    _, held = read_site_folder(data, predictor.class_names, share, predictor.shape)
    if not len(held):
        raise UserError(f"--data {data}: with a share of {share:g} no image here is held out")
    confusion = confusion_of(predictor, held)
    content = {
        "site": name,
        "model": predictor.card.hash,
        "fusion": predictor.card.fusion,
        "classes": predictor.class_names,
        "confusion": confusion.long().tolist(),
    }
    write_whole(out, json.dumps(content, indent=1) + "\n")
    right = float(confusion.diagonal().sum() / confusion.sum())
    say(console, f"{name}: {percent(right)} % of {int(confusion.sum()):,} held-out images; {out}")


def share_held_out(model: Path, card: Card, holdout: float | None) -> float:
    """The model's own, where it knows: another would count images that it was trained on."""
    if card.holdout is None and holdout is None:
        raise UserError(f"{model}: does not say what was held out; add --holdout, as in site train")
    if card.holdout is not None and holdout not in (None, card.holdout):
        raise UserError(
            f"--holdout {holdout:g}: this model was trained on all but {card.holdout:g} of every site's"
            " images, and is measured on those; leave --holdout out"
        )
    share = card.holdout if holdout is None else holdout
    assert share is not None  # one of them is known
    return share


def collect_scores(console: Console, model: Path, files: Sequence[Path]) -> None:
    run = read_run(model).require_end()
    if "server" not in (run.summary.environment or {}):
        raise UserError(f"{model}: was not made by server fuse")
    card, sites = predictor_of(run).card, run.summary.sites or []
    shares: dict[str, float] = {}
    total = torch.zeros(len(card.class_names), len(card.class_names), dtype=torch.float64)
    rows: list[list[str]] = []
    for file in files:
        site, counts = read_score(file, card)
        if site not in sites:
            raise UserError(f"{file}: is of {site}, which is none of the model's {', '.join(sites)}")
        if site in shares:
            raise UserError(f"{file}: is a second score of {site}")
        shares[site] = float(counts.diagonal().sum() / counts.sum())
        rows.append([site, f"{int(counts.sum()):,}", percent(shares[site])])
        total += counts
    before = dict(zip(sites, run.summary.site_accuracy or [], strict=False))
    lost = [site for site, known in before.items() if known is not None and site not in shares]
    if lost:
        raise UserError(
            f"{model}: holds scores of {', '.join(lost)} too; name the files of all at once"
        )
    share = float(total.diagonal().sum() / total.sum())
    rows.append([f"{len(shares)} of {len(sites)} sites", f"{int(total.sum()):,}", percent(share)])
    title = f"{card.fusion}, on held-out images"
    console.print(plain_table(["site", "images", "accuracy, %"], rows, title))
    if len(shares) < len(sites):
        say(console, f"not measured at {', '.join(site for site in sites if site not in shares)}")
    unseen = [name for name, row in zip(card.class_names, total, strict=True) if not row.any()]
    if unseen:
        say(
            console,
            f"no held-out image of {', '.join(unseen)}: nothing is known of how well it does there",
        )
    summary = replace(
        run.summary,
        final_accuracy={card.fusion: share},
        balanced_accuracy={card.fusion: balanced_accuracy(total)},
        macro_f1={card.fusion: macro_f1(total)},
        confusion={card.fusion: total.long().tolist()},
        site_accuracy=[shares.get(site) for site in sites],
    )
    run.files.write_summary(summary)
    say(console, f"page: {write_page(read_run(model))}")


def read_score(file: Path, card: Card) -> tuple[str, torch.Tensor]:
    """A site's name and its counts, which must be counts of this model's answers."""
    try:
        content = json.loads(file.read_text())
        counts = torch.tensor(content["confusion"])
        site, classes = checked_name(content["site"]), list(content["classes"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError, RuntimeError, OverflowError):
        raise UserError(f"{file}: is no score that a site wrote") from None
    names = card.class_names
    if counts.shape != (len(names), len(names)) or classes != names:
        raise UserError(f"{file}: is of other classes than the model")
    if content.get("fusion") != card.fusion:
        raise UserError(f"{file}: is of fusion {content.get('fusion')}, the model of {card.fusion}")
    if content.get("model") != card.hash:
        raise UserError(f"{file}: is of another model; {site} must measure this one with site evaluate")
    whole = counts.dtype == torch.int64
    if not whole or (counts < 0).any() or (counts > MOST_COUNTED).any() or not counts.any():
        raise UserError(f"{file}: has counts that cannot be")
    return site, counts.double()
