"""A user's own folder of images looked through: what a run would stumble over, all of it at once."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from anchorfl.data.folder import (
    SUFFIXES,
    ImageFile,
    class_folders,
    folder_files,
    holds_pictures,
    readable_images,
)
from anchorfl.data.sites import site_files
from anchorfl.errors import UserError

AT_ONCE = 256


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
    kind, train, test, classes = found_files(root, holdout)
    bad = [each for part in parts([*train, *test]) for each in readable_images(part, 1, 3)[1]]
    unreadable = {path for path, _ in bad}
    counts = {
        name: (usable(train, label, unreadable), usable(test, label, unreadable))
        for label, name in enumerate(classes)
    }
    files = (path for path in sorted(root.glob("**/*")) if path.is_file() and path.name[0] != ".")
    return Checked(kind, counts, bad, [path for path in files if path.suffix.lower() not in SUFFIXES])


def found_files(root: Path, holdout: float) -> tuple[str, list[ImageFile], list[ImageFile], list[str]]:
    """As `data.name=folder` reads it, or as `sites` where pictures lie two folders down."""
    tops = class_folders(root)
    nested = tops and not any(holds_pictures(root / name) for name in tops)
    if not nested or "train" in tops:
        return ("folder", *folder_files(root))
    classes = sorted({name for site in tops for name in class_folders(root / site)})
    shares = [site_files(root / site, classes, holdout) for site in tops]
    train, test = ([file for share in shares for file in share[part]] for part in (0, 1))
    return "sites", train, test, classes


def usable(files: list[ImageFile], label: int, unreadable: set[Path]) -> int:
    return sum(own == label and path not in unreadable for path, own in files)


def parts(files: list[ImageFile]) -> list[list[ImageFile]]:
    return [files[start : start + AT_ONCE] for start in range(0, len(files), AT_ONCE)]
