import gzip
import os
import pickle
import shutil
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_digits

from anchorfl.config import DataOptions
from anchorfl.data import Dataset, load_dataset, readers
from anchorfl.errors import UserError
from tests.conftest import write_cifar10, write_cifar100, write_idx, write_svhn


def load(name: str, root: Path, **options: object) -> Dataset:
    return load_dataset(DataOptions(name=name, root=str(root), **options))  # type: ignore[arg-type]


def write_tiny_imagenet(root: Path) -> None:
    folder = root / "tiny-imagenet-200"
    wnids = [f"n{number:08d}" for number in range(200)]
    for wnid in wnids[:3]:
        (folder / "train" / wnid / "images").mkdir(parents=True)
        for number in range(2):
            picture = Image.new("RGB", (64, 64), (int(wnid[1:]) * 50, 0, 0))
            picture.save(folder / "train" / wnid / "images" / f"{wnid}_{number}.JPEG")
    (folder / "val/images").mkdir(parents=True)
    Image.new("L", (64, 64), 99).save(folder / "val/images/val_0.JPEG")
    (folder / "val/val_annotations.txt").write_text(f"val_0.JPEG\t{wnids[7]}\t0\t0\t62\t62\n")
    (folder / "wnids.txt").write_text("\n".join(wnids))


def test_digits_need_no_file(tmp_path: Path) -> None:
    digits = load("digits", tmp_path)
    assert (len(digits.train), len(digits.test)) == (1442, 355)
    assert digits.facts.shape == (1, 8, 8)
    assert digits.train.images.max() == 255
    assert set(np.bincount(digits.test.labels)) <= {34, 35, 36}
    images, labels = readers.embedded_digits()
    known = load_digits()
    assert (images == known.images).all()
    assert (labels == known.target).all()


def test_cifar10_in_official_order(tmp_path: Path) -> None:
    rows = write_cifar10(tmp_path)
    data = load("cifar10", tmp_path)
    assert data.train.images.shape == (20, 3, 32, 32)
    assert np.array_equal(data.train.images.reshape(20, -1), rows[:20])
    assert np.array_equal(data.test.images.reshape(4, -1), rows[20:])
    assert data.train.labels.tolist() == [0, 1, 2, 3] * 5
    assert data.class_names[3] == "class3"


def test_cifar100_reads_the_fine_labels_also_straight_from_its_folder(tmp_path: Path) -> None:
    rows = write_cifar100(tmp_path)
    data = load("cifar100", tmp_path / "cifar-100-python")
    assert data.facts.classes == 100
    assert data.train.labels[1] == 7
    assert np.array_equal(data.test.images.reshape(12, -1), rows)


def test_svhn_turns_label_10_into_digit_0(tmp_path: Path) -> None:
    images = write_svhn(tmp_path)
    data = load("svhn", tmp_path)
    assert data.train.labels.tolist() == [1, 2, 3, 4, 5, 6, 7, 8, 9, 0] * 2
    assert np.array_equal(data.train.images[5], images[..., 5].transpose(2, 0, 1))


@pytest.mark.parametrize(("pack", "suffix"), [(gzip.compress, ".gz"), (bytes, "")])
def test_idx_files_packed_or_not(tmp_path: Path, pack: Callable[[bytes], bytes], suffix: str) -> None:
    images = write_idx(tmp_path / "mnist", pack=pack, suffix=suffix)
    data = load("mnist", tmp_path)
    assert np.array_equal(data.train.images[:, 0], images)
    assert data.test.labels[13] == 3


def test_fashion_mnist_is_found_where_the_system_keeps_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_idx(tmp_path / "system")
    monkeypatch.setattr(readers, "SYSTEM_FASHION", tmp_path / "system")
    data = load("fashion-mnist", tmp_path / "nothing")
    assert data.facts.shape == (1, 28, 28)
    assert data.class_names[9] == "Ankle boot"


def test_tiny_imagenet_reads_training_and_validation(tmp_path: Path) -> None:
    write_tiny_imagenet(tmp_path)
    data = load("tiny-imagenet", tmp_path)
    assert data.facts.classes == 200
    assert data.train.labels.tolist() == [0, 0, 1, 1, 2, 2]
    assert data.test.labels.tolist() == [7]
    assert data.test.images.shape == (1, 3, 64, 64)
    assert abs(int(data.train.images[5, 0, 9, 9]) - 100) < 6


WRITERS = {
    "cifar10": (write_cifar10, "cifar-10-batches-py/data_batch_3"),
    "cifar100": (write_cifar100, "cifar-100-python/train"),
    "svhn": (write_svhn, "svhn/test_32x32.mat"),
    "mnist": (lambda root: write_idx(root / "mnist"), "mnist/t10k-images-idx3-ubyte.gz"),
    "fashion-mnist": (
        lambda root: write_idx(root / "fashion-mnist"),
        "fashion-mnist/train-images-idx3-ubyte.gz",
    ),
    "tiny-imagenet": (write_tiny_imagenet, "tiny-imagenet-200/val/images/val_0.JPEG"),
}


@pytest.mark.parametrize("name", WRITERS)
def test_truncated_and_garbled_files_are_named(tmp_path: Path, name: str) -> None:
    write, file = WRITERS[name]
    write(tmp_path)
    path = tmp_path / file
    whole = path.read_bytes()
    for broken in (whole[: len(whole) // 2], b"", b"\x00garbage" * 50):
        path.write_bytes(broken)
        with pytest.raises(UserError, match=path.name) as caught:
            load(name, tmp_path)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["cifar10", "cifar100", "svhn", "mnist", "tiny-imagenet"])
def test_a_missing_file_is_told_with_its_place_and_source(tmp_path: Path, name: str) -> None:
    with pytest.raises(UserError) as caught:
        load(name, tmp_path)
    message = str(caught.value)
    assert str(tmp_path) in message
    assert f"anchorfl data fetch {name}" in message
    assert "http" in message


class Hostile:
    def __init__(self, target: str) -> None:
        self.target = target

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, (f"touch {self.target}",)


@pytest.mark.parametrize("protocol", [0, 2, 5])
def test_a_hostile_pickle_is_refused_and_does_nothing(tmp_path: Path, protocol: int) -> None:
    write_cifar10(tmp_path)
    target = tmp_path / "touched"
    content = {b"data": Hostile(str(target)), b"labels": [0]}
    file = tmp_path / "cifar-10-batches-py/data_batch_1"
    file.write_bytes(pickle.dumps(content, protocol))
    with pytest.raises(UserError, match=r"refused, .*(system|uses DICT)"):
        load("cifar10", tmp_path)
    assert not target.exists()


def test_labels_and_images_must_agree(tmp_path: Path) -> None:
    write_cifar10(tmp_path)
    file = tmp_path / "cifar-10-batches-py/test_batch"
    rows = np.zeros((3, 3072), np.uint8)
    file.write_bytes(pickle.dumps({b"data": rows, b"labels": [0, 1]}, 2))
    with pytest.raises(UserError, match="3 test images but 2 labels"):
        load("cifar10", tmp_path)
    file.write_bytes(pickle.dumps({b"data": rows, b"labels": [0, 1, 12]}, 2))
    with pytest.raises(UserError, match=r"outside 0\.\.9"):
        load("cifar10", tmp_path)


def test_training_and_test_images_must_be_of_one_size(tmp_path: Path) -> None:
    write_idx(tmp_path / "mnist")
    head = struct.pack(">4I", 0x803, 20, 14, 14)
    file = tmp_path / "mnist/t10k-images-idx3-ubyte.gz"
    file.write_bytes(gzip.compress(head + bytes(20 * 14 * 14)))
    with pytest.raises(UserError, match="differ in size"):
        load("mnist", tmp_path)


def write_own_pictures(root: Path, mode: str = "RGB") -> None:
    for number, name in enumerate(("cats", "dogs")):
        (root / name).mkdir(parents=True)
        for k in range(10):
            colour = (40 + 100 * number,) * 3 if mode == "RGB" else 40 + 100 * number
            Image.new(mode, (30 + k, 20), colour).save(root / name / f"{k}.png")


def test_a_folder_of_own_images_is_split_and_resized(tmp_path: Path) -> None:
    write_own_pictures(tmp_path)
    (tmp_path / "cats" / "notes.txt").write_text("not a picture")
    data = load("folder", tmp_path, size=16)
    assert data.class_names == ["cats", "dogs"]
    assert (len(data.train), len(data.test)) == (16, 4)
    assert data.facts.shape == (3, 16, 16)
    assert set(data.train.images[data.train.labels == 1].ravel()) == {140}


def test_a_folder_may_bring_its_own_test_images_and_be_grey(tmp_path: Path) -> None:
    write_own_pictures(tmp_path / "train", "L")
    assert len(load("folder", tmp_path).test) == 4
    shutil.copytree(tmp_path / "train", tmp_path / "val")
    data = load("folder", tmp_path)
    assert (len(data.train), len(data.test)) == (20, 20)
    assert data.facts.shape == (1, 32, 32)


def test_sixteen_bit_pictures_keep_their_grey_levels(tmp_path: Path) -> None:
    for name, top in (("dark", 20000), ("light", 60000)):
        (tmp_path / name).mkdir()
        for k in range(5):
            levels = np.linspace(0, top, 64).astype(np.uint16).reshape(8, 8)
            Image.fromarray(levels).save(tmp_path / name / f"{k}.png")
    data = load("folder", tmp_path, size=8)
    assert data.facts.shape == (1, 8, 8)
    assert data.train.images[0].max() == 20000 // 257
    assert data.train.images[-1].max() == 60000 // 257
    assert len(set(data.train.images[-1].ravel())) == 64


def test_what_is_transparent_is_white_and_floating_point_is_refused(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        for k in range(5):
            picture = Image.new("RGBA", (8, 8), (0, 0, 0, 0))
            picture.paste((0, 0, 0, 255), (0, 0, 4, 8))
            picture.save(tmp_path / name / f"{k}.png")
    (tmp_path / "a" / "._0.png").write_bytes(b"left by another system")
    image = load("folder", tmp_path, size=8).train.images[0]
    assert image[:, :, :4].max() == 0
    assert image[:, :, 4:].min() == 255
    Image.fromarray(np.zeros((4, 4), np.float32)).save(tmp_path / "a" / "float.tiff")
    with pytest.raises(UserError, match=r"float\.tiff: holds floating-point levels"):
        load("folder", tmp_path, size=8)


def test_a_photograph_is_turned_as_its_camera_says(tmp_path: Path) -> None:
    for name in ("up", "down"):
        (tmp_path / name).mkdir()
        for k in range(5):
            picture = Image.new("RGB", (8, 8))
            picture.paste((255, 0, 0), (0, 0, 8, 4))
            exif = picture.getexif()
            exif[0x0112] = 3 if name == "down" else 1
            picture.save(tmp_path / name / f"{k}.png", exif=exif)
    data = load("folder", tmp_path, size=8)
    down, up = data.train.images[0], data.train.images[-1]
    assert np.array_equal(down, up[:, ::-1])


def test_folder_mistakes_are_told(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such folder"):
        load("folder", tmp_path / "none")
    with pytest.raises(UserError, match="0 class folders"):
        load("folder", tmp_path)
    write_own_pictures(tmp_path)
    (tmp_path / "cats" / "0.png").write_bytes(b"not a png")
    with pytest.raises(UserError, match=r"0\.png: truncated, corrupt or not an image"):
        load("folder", tmp_path)
