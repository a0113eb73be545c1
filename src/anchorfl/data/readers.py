"""Readers of the official files: each returns (training split, test split, class names)."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from importlib.metadata import distribution
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from anchorfl.config import DataOptions
from anchorfl.data.dataset import Bytes, Labels, Split
from anchorfl.data.folder import read_images
from anchorfl.data.matlab import read_mat, unpacked
from anchorfl.data.spec import DATASETS
from anchorfl.data.unpickle import read_pickled_arrays
from anchorfl.errors import UserError

Splits = tuple[Split, Split, list[str]]
DIGITS = [str(digit) for digit in range(10)]
FASHION = ["T-shirt/top", "Trouser", "Pullover", "Dress", "Coat"]
FASHION += ["Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"]
GZIP, LARGEST_IDX = 31, 1 << 26
"""zlib's name of the format, and bytes: MNIST's training images have 47 million."""
SYSTEM_FASHION = Path("/usr/share/datasets/fashion-mnist")


def missing(name: str, path: Path) -> UserError:
    """Which file belongs where, and how to get it."""
    sources = " ".join(download.url for download in DATASETS.get(name).downloads)
    return UserError(
        f"{name}: {path} is missing; 'anchorfl data fetch {name}' downloads the official files,"
        f" or put them there from {sources}"
    )


def find(name: str, root: Path, file: str, variants: Sequence[str] = ()) -> Path:
    """An official file under root, or under the data set's own folder in root."""
    folder = root / (DATASETS.get(name).folder or name)
    for place in (folder, root):
        for spelling in (file, *variants):
            if (place / spelling).is_file():
                return place / spelling
    raise missing(name, folder / file)


def embedded_digits() -> tuple[NDArray[np.float64], Labels]:
    """N x 8 x 8 pixels in 0..16, and labels: scikit-learn's file, without its import, a second."""
    file = str(distribution("scikit-learn").locate_file("sklearn/datasets/data/digits.csv.gz"))
    rows = np.loadtxt(file, delimiter=",")
    return rows[:, :-1].reshape(-1, 8, 8), rows[:, -1].astype(np.int64)


def read_digits(root: Path, options: DataOptions) -> Splits:
    """scikit-learn's digits, 0..16 stretched to 0..255; every fifth sample of a class is a test one."""
    pixels, labels = embedded_digits()
    images = np.round(pixels * (255 / 16)).astype(np.uint8)[:, None]
    rank = np.zeros(len(labels), np.int64)
    for digit in range(10):
        rank[labels == digit] = np.arange((labels == digit).sum())
    test = rank % 5 == 4
    return Split(images[~test], labels[~test]), Split(images[test], labels[test]), DIGITS


def cifar_split(path: Path, label_key: str) -> Split:
    """One CIFAR file: rows of 3072 bytes, the three colour planes one after the other."""
    content = read_pickled_arrays(path)
    try:
        rows = np.asarray(content["data"], np.uint8)
        labels = np.asarray(content[label_key], np.int64)
        return Split(rows.reshape(-1, 3, 32, 32), labels)
    except (KeyError, ValueError, TypeError, OverflowError):
        raise UserError(f"{path}: corrupt, no 'data' rows of 3072 with '{label_key}'") from None


def text_list(path: Path, key: str) -> list[str]:
    names = read_pickled_arrays(path).get(key)
    if not isinstance(names, list):
        raise UserError(f"{path}: corrupt, no '{key}'")
    return [name.decode("latin1") if isinstance(name, bytes) else str(name) for name in names]


def read_cifar10(root: Path, options: DataOptions) -> Splits:
    files = [find("cifar10", root, f"data_batch_{number}") for number in range(1, 6)]
    parts = [cifar_split(path, "labels") for path in files]
    images = np.concatenate([part.images for part in parts])
    labels = np.concatenate([part.labels for part in parts])
    test = cifar_split(find("cifar10", root, "test_batch"), "labels")
    return Split(images, labels), test, text_list(find("cifar10", root, "batches.meta"), "label_names")


def read_cifar100(root: Path, options: DataOptions) -> Splits:
    train = cifar_split(find("cifar100", root, "train"), "fine_labels")
    test = cifar_split(find("cifar100", root, "test"), "fine_labels")
    return train, test, text_list(find("cifar100", root, "meta"), "fine_label_names")


def read_svhn(root: Path, options: DataOptions) -> Splits:
    """The cropped-digit .mat files; the digit 0 is written there as label 10."""

    def split(part: str) -> Split:
        path = find("svhn", root, f"{part}_32x32.mat")
        images, labels = read_mat(path, ("X", "y"))
        if images.dtype != np.uint8 or images.ndim != 4 or images.shape[:3] != (32, 32, 3):
            raise UserError(f"{path}: corrupt, X holds no 32 x 32 colour images")
        if not np.isin(labels, range(1, 11)).all():
            raise UserError(f"{path}: corrupt, y holds other labels than 1 to 10")
        in_order = np.ascontiguousarray(images.transpose(3, 2, 0, 1))
        return Split(in_order, labels.reshape(-1).astype(np.int64) % 10)

    return split("train"), split("test"), DIGITS


def read_idx(path: Path, dimensions: int) -> Bytes:
    """An idx file of bytes, gzipped or not: magic 0x0000 08 <dimensions>, sizes, then the values."""
    try:
        raw = path.read_bytes()
        packed = raw[:2] == b"\x1f\x8b"
        content = unpacked(raw, LARGEST_IDX, GZIP) if packed else memoryview(raw)
        magic, *sizes = struct.unpack_from(f">{dimensions + 1}I", content)
    except (OSError, ValueError, struct.error, zlib.error) as error:
        raise UserError(f"{path}: truncated or corrupt ({error})") from None
    offset = 4 * (dimensions + 1)
    if magic != 0x0800 + dimensions or len(content) - offset != int(np.prod(sizes)):
        raise UserError(f"{path}: truncated or corrupt, not an idx file of its stated size")
    return np.frombuffer(content, np.uint8, offset=offset).reshape(sizes).copy()


def find_idx(name: str, root: Path, part: str) -> Path:
    stem = f"{part}-ubyte"
    return find(name, root, f"{stem}.gz", (stem, stem.replace("-idx", ".idx")))


def idx_splits(name: str, root: Path) -> tuple[Split, Split]:
    def split(prefix: str) -> Split:
        images = read_idx(find_idx(name, root, f"{prefix}-images-idx3"), 3)[:, None]
        labels = read_idx(find_idx(name, root, f"{prefix}-labels-idx1"), 1)
        return Split(images, labels.astype(np.int64))

    return split("train"), split("t10k")


def read_mnist(root: Path, options: DataOptions) -> Splits:
    return *idx_splits("mnist", root), DIGITS


def read_fashion_mnist(root: Path, options: DataOptions) -> Splits:
    """From root or, where it has no such files, from where Debian's package puts them."""
    try:
        find_idx("fashion-mnist", root, "train-images-idx3")
    except UserError:
        if not SYSTEM_FASHION.is_dir():
            raise
        root = SYSTEM_FASHION
    return *idx_splits("fashion-mnist", root), FASHION


def read_tiny_imagenet(root: Path, options: DataOptions) -> Splits:
    """train/WNID/images/*.JPEG and val/ with its annotations; the official test labels are unknown."""
    folder = root if (root / "wnids.txt").is_file() else root / "tiny-imagenet-200"
    for file in ("wnids.txt", "val/val_annotations.txt"):
        if not (folder / file).is_file():
            raise missing("tiny-imagenet", folder / file)
    classes = sorted((folder / "wnids.txt").read_text("latin1").split())
    number = {wnid: label for label, wnid in enumerate(classes)}
    train = [
        (path, number[wnid])
        for wnid in classes
        for path in sorted((folder / "train" / wnid / "images").glob("*.JPEG"))
    ]
    if not train:
        raise missing("tiny-imagenet", folder / "train")
    try:
        rows = [
            line.split("\t")[:2]
            for line in (folder / "val/val_annotations.txt").read_text("latin1").splitlines()
        ]
        validation = [(folder / "val/images" / file, number[wnid]) for file, wnid in rows]
    except (ValueError, KeyError):
        raise UserError(f"{folder / 'val/val_annotations.txt'}: truncated or corrupt") from None
    return read_images(train, 64, 3), read_images(validation, 64, 3), classes
