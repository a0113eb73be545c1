"""A user's own images: a folder per class."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from anchorfl.data.dataset import Split
from anchorfl.errors import UserError

if TYPE_CHECKING:
    from anchorfl.config import DataOptions

SUFFIXES = {".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff"}
FORMATS = ("PNG", "JPEG", "BMP", "GIF", "WEBP", "TIFF")
"""No other is opened, whatever a file's name says: some of Pillow's start programs."""
ImageFile = tuple[Path, int]
SIXTEEN_BIT = {"I", "I;16", "I;16B", "I;16L", "I;16N"}
TEST_NAMES = ("test", "val", "valid", "validation")
GREY = SIXTEEN_BIT | {"1", "L"}
MOST_NAMED = 20
UNREADABLE = (OSError, UnidentifiedImageError, SyntaxError, ValueError, Image.DecompressionBombError)


def read_images(files: Sequence[ImageFile], size: int, channels: int) -> Split:
    """Decode image files and resize them to size x size, in colour (3) or grey (1)."""
    split, bad = readable_images(files, size, channels)
    if bad:
        shown = [f"{path}: {why}" for path, why in bad[:MOST_NAMED]]
        if len(bad) > MOST_NAMED:
            shown.append(f"and {len(bad) - MOST_NAMED:,} more")
        raise UserError("; ".join(shown))
    return split


def readable_images(
    files: Sequence[ImageFile], size: int, channels: int
) -> tuple[Split, list[tuple[Path, str]]]:
    """Those that can be decoded, and why the others cannot."""
    images = np.empty((len(files), channels, size, size), np.uint8)
    labels: list[int] = []
    bad: list[tuple[Path, str]] = []
    for path, label in files:
        try:
            with Image.open(path, formats=FORMATS) as opened:
                image = eight_bit(ImageOps.exif_transpose(opened))
            image = image.convert("RGB" if channels == 3 else "L")
            if image.size != (size, size):
                image = image.resize((size, size), Image.Resampling.BILINEAR)
            images[len(labels)] = np.asarray(image).reshape(size, size, channels).transpose(2, 0, 1)
            labels.append(label)
        except UserError as error:
            bad.append((path, str(error)))
        except UNREADABLE:
            bad.append((path, "truncated, corrupt or not an image"))
    return Split(images[: len(labels)], np.array(labels, np.int64)), bad


def read_folder(root: Path, options: DataOptions) -> tuple[Split, Split, list[str]]:
    """root/train/CLASS and root/test/CLASS (or val), or root/CLASS, a fifth of it kept for testing."""
    train, test, classes = folder_files(root)
    return *read_both(train, test, options.size), classes


def read_both(train: list[ImageFile], test: list[ImageFile], size: int) -> tuple[Split, Split]:
    """Grey where all of them are."""
    channels = 1 if all(is_grey(path) for path, _ in (*train, *test)) else 3
    return read_images(train, size, channels), read_images(test, size, channels)


def folder_files(root: Path) -> tuple[list[ImageFile], list[ImageFile], list[str]]:
    """The training images of a folder and its test images, in their order, and its classes."""
    if not root.is_dir():
        raise UserError(f"data.root={root}: no such folder; it must hold a folder per class")
    held_out = next((root / name for name in TEST_NAMES if (root / name).is_dir()), None)
    if (root / "train").is_dir() and held_out is not None:
        classes = class_folders(root / "train")
        train, test = listed(root / "train", classes), listed(held_out, classes)
        strangers = set(class_folders(held_out)) - set(classes)
        if strangers:
            raise UserError(f"{held_out}: classes without training images: {sorted(strangers)}")
    else:
        place = root / "train" if (root / "train").is_dir() else root
        classes = class_folders(place)
        refuse_sites(place, classes)
        everything = listed(place, classes)
        by_class = [[item for item in everything if item[1] == k] for k in range(len(classes))]
        test = [item for group in by_class for item in group[4::5]]
        kept = set(test)
        train = [item for item in everything if item not in kept]
    if len(classes) < 2 or not train or not test:
        raise UserError(
            f"{root}: {len(classes)} class folders, {len(train)} training and {len(test)} test"
            " images; there must be 2 classes or more, and 5 images or more in a class"
            " without a test folder"
        )
    return train, test, classes


def refuse_sites(root: Path, classes: list[str]) -> None:
    """A tree of sites read as a folder of classes would teach which site a picture is from."""
    inside = Counter(name for each in classes for name in class_folders(root / each))
    shared = sorted(name for name, times in inside.items() if times > 1)
    if shared:
        raise UserError(
            f"data.root={root}: several folders in it hold a folder {shared[0]!r}; if"
            f" {', '.join(classes[:3])} are sites and {', '.join(shared[:3])} classes, use"
            " data.name=sites; if not, put the pictures straight into the folders of the classes"
        )


def class_folders(root: Path) -> list[str]:
    return sorted(path.name for path in root.iterdir() if path.is_dir() and path.name[0] != ".")


def holds_pictures(folder: Path) -> bool:
    """Straight in it, not in folders inside it."""
    return any(path.suffix.lower() in SUFFIXES for path in folder.iterdir())


def listed(root: Path, classes: list[str]) -> list[ImageFile]:
    """The images in the classes' folders; a name that is no folder here leads nowhere."""
    here = set(class_folders(root))
    return [
        (path, label)
        for label, name in enumerate(classes)
        if name in here
        for path in sorted((root / name).glob("**/*"))
        if path.suffix.lower() in SUFFIXES and path.name[0] != "." and path.is_file()
    ]


def is_grey(path: Path) -> bool:
    try:
        with Image.open(path, formats=FORMATS) as image:
            return image.mode in GREY
    except UNREADABLE:
        return False


def eight_bit(image: Image.Image) -> Image.Image:
    """Eight bits a channel, on white where it is transparent.

    Pillow's own conversions would clip 16-bit levels and turn what is transparent black.
    """
    if image.mode == "F":
        raise UserError("holds floating-point levels; save it with 8 or 16 bits")
    if image.mode in SIXTEEN_BIT:
        levels = np.asarray(image, np.int64)
        scale = 257 if image.mode != "I" or levels.max() > 255 else 1
        return Image.fromarray((levels // scale).clip(0, 255).astype(np.uint8))
    if image.has_transparency_data:
        coloured = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", image.size, "white"), coloured)
    return image
