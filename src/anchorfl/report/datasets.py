"""What a folder of images holds, and what is wrong with it."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from anchorfl.data import Checked
from anchorfl.report.console import say
from anchorfl.report.tables import plain_table


def show_check(console: Console, root: Path, found: Checked) -> bool:
    """What a folder holds and what is wrong with it; False where a run would be refused."""
    rows = [[name, f"{train:,}", f"{test:,}"] for name, (train, test) in found.counts.items()]
    title = f"{root}: data.name={found.kind}, {len(rows):,} classes"
    console.print(plain_table(["class", "to train on", "to test on"], rows, title))
    for path, why in found.bad:
        say(console, f"bad: {path}: {why}")
    for words, names in (
        ("a folder without an image", found.empty),
        ("no test image, so its accuracy is not measured", found.untested),
    ):
        for name in names:
            say(console, f"class {name}: {words}")
    if found.passed_over:
        kinds = ", ".join(sorted({path.suffix or path.name for path in found.passed_over}))
        say(console, f"passed over, no pictures: {len(found.passed_over):,} ({kinds})")
    say(
        console,
        "Training does not mirror them, unless data.flip=true says that left and right are alike.",
    )
    say(console, f"cannot be read: {len(found.bad):,}" if found.bad else "All pictures can be read.")
    return not found.bad
