"""The fusions of one run beside each other, and beside the owner of each class."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from anchorfl.report.console import say
from anchorfl.report.numbers import percent
from anchorfl.report.table_files import Table, write_tables
from anchorfl.report.tables import plain_table, widths
from anchorfl.simulate import FusedAgain

HEADINGS = [
    *("fusion", "accuracy, %", "% wrong class, same owner", "% wrong owner"),
    *("MB up per client", "server, s", "ms per image", "MFLOP per image"),
]
"""Who it is, how good, and from the fifth on what it costs."""


def show_fusions(console: Console, found: FusedAgain, table: Path | None) -> None:
    """Accuracy by fusion, and where the errors lie that the owner of the true class avoids."""
    rows = fusion_rows(found)
    title = "fusions of the same uploads"
    wide = plain_table(HEADINGS, rows, title)
    if widths(wide, console).minimum <= console.width:
        console.print(wide)
    else:
        for columns, name in ((slice(1, 4), title), (slice(4, 8), "what they cost")):
            parts = [[row[0], *row[columns]] for row in (HEADINGS, *rows) if any(row[columns])]
            console.print(plain_table(parts[0], parts[1:], name))
    if found.evaluation is not None:
        say(console, "owner: the client that holds most of the true class, used alone")
        say(console, "% wrong: of all images, those that the owner gets right and the fusion does not")
    if table is not None:
        write_tables([Table("", title, HEADINGS, rows)], table, rows=[HEADINGS, *rows])
        say(console, f"table: {table}")
    for name, why in found.missing.items():
        say(console, f"{name}: not tried, {why}")


def fusion_rows(found: FusedAgain) -> list[list[str]]:
    """The best first; below them a single client, and the owners. Real sites' images are not here."""
    evaluation = found.evaluation
    accuracy = dict.fromkeys(found.fused) if evaluation is None else evaluation.accuracy()
    rows = []
    for name, share in sorted(accuracy.items(), key=lambda pair: -(pair[1] or 0.0)):
        shares = ["", "", ""]
        if evaluation is not None:
            shares = list(map(percent, (share, *found.gaps(evaluation, name))))
        cost = found.costs[name]
        costs = [
            f"{cost.fusion_bytes / 1e6:.1f}",
            f"{cost.server_seconds:.3f}",
            f"{cost.prediction_ms:.3f}",
            f"{cost.prediction_flops / 1e6:.1f}",
        ]
        rows.append([name, *shares, *costs])
    if evaluation is not None and evaluation.local:
        alone = max(map(evaluation.share_right, evaluation.local.values()))
        rows.append(["best single client", percent(alone), *[""] * 6])
        rows.append(["owner (oracle)", percent(found.oracle(evaluation)), *[""] * 6])
    return rows
