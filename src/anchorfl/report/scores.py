"""What sites counted on the images that they held out, as a table."""

from __future__ import annotations

from rich.console import Console

from anchorfl.report.console import say
from anchorfl.report.numbers import percent
from anchorfl.report.tables import plain_table
from anchorfl.transport.scores import Scores, share_right


def show_scores(console: Console, scores: Scores) -> None:
    counted, total = scores.by_site, scores.total
    rows = [[site, f"{int(own.sum()):,}", percent(share_right(own))] for site, own in counted.items()]
    of_all = f"{len(counted)} of {len(counted) + len(scores.missing)} sites"
    rows.append([of_all, f"{int(total.sum()):,}", percent(share_right(total))])
    title = f"{scores.fusion}, on held-out images"
    console.print(plain_table(["site", "images", "accuracy, %"], rows, title))
    if scores.missing:
        say(console, f"not measured at {', '.join(scores.missing)}")
    unseen = [name for name, row in zip(scores.class_names, total, strict=True) if not row.any()]
    if unseen:
        say(
            console,
            f"no held-out image of {', '.join(unseen)}: nothing is known of how well it does there",
        )
