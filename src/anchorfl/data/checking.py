"""A user's own folder of images looked through: what a run would stumble over, all of it at once."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from anchorfl.data.folder import SUFFIXES, class_folders, folder_files, holds_pictures, readable_images
from anchorfl.data.sites import tree_files
from anchorfl.errors import UserError


@dataclass(frozen=True)
class Checked:
    """Per class, images to train on and to test on; what cannot be read, and what is passed over."""

    kind: str
    counts: dict[str, tuple[int, int]]
    bad: list[tuple[Path, str]]
    passed_over: list[Path]

    @property
    def empty(self) -> list[str]:
        return [name for name, (train, test) in self.counts.items() if not train + test]

    @property
    def untested(self) -> list[str]:
        return [name for name, (train, test) in self.counts.items() if train and not test]


def check_images(root: Path, holdout: float) -> Checked:
    """ROOT/CLASS/picture (or train/ and test/ of that), or ROOT/SITE/CLASS/picture."""
    if not root.is_dir():
        raise UserError(f"{root}: no such folder")
    tops = class_folders(root)
    nested = tops and "train" not in tops and not any(holds_pictures(root / name) for name in tops)
    if nested:
        found, classes = tree_files(root, holdout)
        train, test = ([file for share in found.values() for file in share[part]] for part in (0, 1))
    else:
        train, test, classes = folder_files(root)
    _, bad = readable_images([*train, *test], 1, 3)
    unreadable = {path for path, _ in bad}
    trained, tested = (
        Counter(label for path, label in files if path not in unreadable) for files in (train, test)
    )
    counts = {name: (trained[label], tested[label]) for label, name in enumerate(classes)}
    others = [
        path
        for path in sorted(root.glob("**/*"))
        if path.is_file() and path.name[0] != "." and path.suffix.lower() not in SUFFIXES
    ]
    return Checked("sites" if nested else "folder", counts, bad, others)
