"""A user's own images at several sites: as they lie in folders, or by a table."""

from __future__ import annotations

import csv
import hashlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath

import numpy as np
from PIL import Image

from anchorfl.config import DataOptions
from anchorfl.data.dataset import Labels, Sites, Split
from anchorfl.data.facts import Shape
from anchorfl.data.folder import (
    ImageFile,
    class_folders,
    folder_files,
    holds_pictures,
    listed,
    read_both,
    readable_images,
)
from anchorfl.data.partition import Partition
from anchorfl.data.readers import embedded_digits
from anchorfl.errors import UserError
from anchorfl.registry import suggestion

Share = tuple[list[ImageFile], list[ImageFile]]
"""Images to train on, and images held out."""


def read_sites(root: Path, options: DataOptions) -> tuple[Split, Split, list[str]]:
    """root/SITE/CLASS/picture: several sites' images, a share of them kept for testing."""
    if not root.is_dir():
        raise UserError(f"data.root={root}: no such folder; it must hold DIR/SITE/CLASS/picture")
    found, classes = tree_files(root, options.holdout)
    train, test = ([file for share in found.values() for file in share[part]] for part in (0, 1))
    if len(found) < 2 or len(classes) < 2 or not train or not test:
        raise UserError(
            f"{root}: {len(found)} sites, {len(classes)} classes, {len(train)} training and"
            f" {len(test)} test images; there must be DIR/SITE/CLASS/picture, 2 sites and 2 classes"
        )
    split, held_out = read_both(train, test, options.size)
    owners = np.repeat(np.arange(len(found)), [len(share[0]) for share in found.values()])
    return replace(split, sites=Sites(list(found), owners)), held_out, classes


def read_site_folder(
    root: Path, classes: list[str], holdout: float, shape: Shape
) -> tuple[Split, Split, list[tuple[Path, str]]]:
    """root/CLASS/picture: one site's images to train on, those held out, and why others are none.

    A class may be missing here; one that is not among those of the task is refused.
    """
    if not root.is_dir():
        raise UserError(f"--data {root}: no such folder; it must hold a folder per class")
    refuse_other_folders(root, classes)
    train, test = site_files(root, classes, holdout)
    channels, size, _ = shape
    (first, bad), (rest, others) = (readable_images(own, size, channels) for own in (train, test))
    return first, rest, [*bad, *others]


def refuse_unreadable(bad: Sequence[tuple[Path, str]]) -> None:
    """UserError that names the first file that cannot be read, and counts the others."""
    if bad:
        (path, why), others = bad[0], len(bad) - 1
        more = f", and {others:,} more" if others else ""
        raise UserError(
            f"{path}: {why}{more}; anchorfl site check lists all of them, --skip-bad leaves them out"
        )


def refuse_other_folders(root: Path, classes: list[str]) -> None:
    here, known = class_folders(root), f"(the task's classes: {', '.join(classes)})"
    if not here and holds_pictures(root):
        raise UserError(
            f"--data {root}: holds pictures and no folder per class {known}; it may be one level too"
            " deep: name the folder above it"
        )
    if not here:
        raise UserError(f"--data {root}: holds no folder; it must hold a folder per class {known}")
    strangers = [name for name in here if name not in classes]
    if strangers:
        hint = next(filter(None, (suggestion(name, classes) for name in strangers)), "")
        raise UserError(f"--data {root}: unknown to the task: {', '.join(strangers)}{hint} {known}")


def tree_files(root: Path, holdout: float) -> tuple[dict[str, Share], list[str]]:
    """By the site's name, what `site_files` finds of root/SITE/CLASS/picture; and all classes."""
    names = class_folders(root)
    classes = sorted({name for site in names for name in class_folders(root / site)})
    return {site: site_files(root / site, classes, holdout) for site in names}, classes


def site_files(root: Path, classes: list[str], holdout: float) -> Share:
    """One site's images to train on, and those held out."""
    train: list[ImageFile] = []
    test: list[ImageFile] = []
    for file in listed(root, classes):
        (test if is_held_out(file[0], holdout) else train).append(file)
    return train, test


def is_held_out(path: Path, holdout: float) -> bool:
    """Whether a picture is kept for testing: by its own bytes, whatever its name and the others are.

    Copies are held out together, and a larger share holds out the same pictures and more. How many
    of a class are is left to chance: a small class may have none. A file that cannot be opened is not
    held out; reading it says why.
    """
    try:
        found = hashlib.sha256(path.read_bytes()).digest()
    except OSError:
        return False
    return int.from_bytes(found[:8], "big") < holdout * 2**64


EXAMPLE = {"north": (0, 1, 2, 3), "south": (3, 4, 5, 6), "west": (6, 7, 8, 9, 0)}
"""Sites of an example, and the digits that they hold."""


def write_example(folder: Path) -> None:
    """Digits as pictures at three sites, folder/SITE/CLASS/picture, and classes.txt beside them."""
    if folder.exists():
        raise UserError(f"{folder}: is there already")
    for number, (image, label) in enumerate(zip(*embedded_digits(), strict=True)):
        owners = [site for site, labels in EXAMPLE.items() if label in labels]
        home = folder / owners[number % len(owners)] / f"digit {label}"
        home.mkdir(parents=True, exist_ok=True)
        Image.fromarray((image * 255 / 16).astype(np.uint8)).save(home / f"{number:04d}.png")
    names = "".join(f"digit {label}\n" for label in range(10))
    (folder / "classes.txt").write_text(names)


def split_by_table(root: Path, table: Path) -> tuple[Partition, list[str], Labels]:
    """Who holds which training image of a folder, by a CSV of file and site; sites in their order.

    Files are named as they lie below the folder. Test images may stand in the table and are left out.
    """
    train, test, _ = folder_files(root)
    try:
        rows = [row for row in csv.reader(table.read_text().splitlines()) if row]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"{table}: cannot be read as CSV ({error})") from None
    if rows and [cell.strip().lower() for cell in rows[0]] == ["file", "site"]:
        rows = rows[1:]
    if not rows or any(len(row) != 2 for row in rows):
        raise UserError(f"{table}: needs two columns, file and site")
    owner = {str(PurePosixPath(file.strip())): site.strip() for file, site in rows}
    names = [path.relative_to(root).as_posix() for path, _ in train]
    known = {*names, *(path.relative_to(root).as_posix() for path, _ in test)}
    for file in owner:
        if file not in known:
            raise UserError(f"{table}: {file} is no image in a class folder of {root}")
    for name in names:
        if name not in owner:
            raise UserError(f"{table}: names no site for {name}")
    sites = sorted({owner[name] for name in names})
    owners = np.array([sites.index(owner[name]) for name in names], np.int64)
    labels = np.array([label for _, label in train], np.int64)
    return Partition.by_owner(owners, len(sites)), sites, labels
