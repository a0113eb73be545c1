"""The fusions of one run beside each other, and beside the owner of each class."""

from __future__ import annotations

from rich.console import Console

from anchorfl.refusion import Refused
from anchorfl.report.console import say
from anchorfl.report.tables import best_client, plain_table


def show_fusions(console: Console, found: Refused) -> None:
    """Accuracy by fusion, and where the errors lie that the owner of the true class avoids."""
    rows = []
    for name, accuracy in sorted(found.evaluation.accuracy().items(), key=lambda pair: -pair[1]):
        within, between = found.gaps(name)
        rows.append([name, *(f"{100 * value:.2f}" for value in (accuracy, within, between))])
    alone = best_client(
        [found.evaluation.share_right(each) for each in found.evaluation.local.values()]
    )
    rows.append(["best client alone", f"{100 * alone:.2f}", "", ""])
    rows.append(["owner of the true class (an oracle)", f"{100 * found.oracle():.2f}", "", ""])
    headings = ["fusion", "test accuracy, %", "lost within an owner", "lost to another owner"]
    console.print(plain_table(headings, rows, "fusions of the same uploads"))
    say(console, "lost: % of images that the owner names rightly and the fusion does not")
    for name, why in found.missing.items():
        say(console, f"{name}: not tried, {why}")
