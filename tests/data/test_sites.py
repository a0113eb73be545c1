from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from anchorfl import Experiment
from anchorfl.config import DataOptions
from anchorfl.data import load_dataset, load_partition, write_example
from anchorfl.data.sites import site_files
from anchorfl.errors import UserError
from tests.conftest import command

HELD = {"north": {"cat": 10, "dog": 5}, "south": {"dog": 5, "owl": 10}}
TRAINED = [[7, 4, 0], [0, 4, 7]]
"""Of each class: about a fifth is held out, by the pictures' own bytes."""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """DIR/SITE/CLASS/picture, every picture another, in a format whose bytes no version changes."""
    number = 0
    for site, classes in HELD.items():
        for name, count in classes.items():
            (tmp_path / "tree" / site / name).mkdir(parents=True)
            for place in range(count):
                number += 1
                pixels = np.random.default_rng(number).integers(0, 256, (8, 8), dtype=np.uint8)
                Image.fromarray(pixels).save(tmp_path / "tree" / site / name / f"{place:02d}.bmp")
    return tmp_path / "tree"


def test_sites_hold_what_lies_in_their_folders_and_keep_a_share_for_testing(tree: Path) -> None:
    dataset = load_dataset(DataOptions(name="sites", root=str(tree), size=8))
    assert dataset.class_names == ["cat", "dog", "owl"]
    assert dataset.train.sites is not None
    assert dataset.train.sites.names == ["north", "south"]
    trained, tested = (np.bincount(part.labels) for part in (dataset.train, dataset.test))
    assert (trained + tested).tolist() == [10, 10, 10]
    owners = dataset.train.sites.owners
    counts = [np.bincount(dataset.train.labels[owners == site], minlength=3) for site in (0, 1)]
    assert np.array(counts).tolist() == TRAINED


def test_what_is_held_out_is_a_share_and_does_not_depend_on_other_pictures(tmp_path: Path) -> None:
    write_example(tmp_path / "example")
    root = tmp_path / "example" / "north"
    classes = [folder.name for folder in sorted(root.iterdir())]
    train, test = site_files(root, classes, 0.2)
    assert {label for _, label in test} == {label for _, label in train} == set(range(4))
    assert 0.15 < len(test) / (len(train) + len(test)) < 0.25
    more = site_files(root, classes, 0.5)[1]
    assert set(test) < set(more)
    for name in classes:
        for number in range(5):
            Image.new("L", (8, 8), number).save(root / name / f"000{number} early.bmp")
    again = site_files(root, classes, 0.2)
    assert set(train) < set(again[0])
    assert set(test) < set(again[1])
    (place, _), *_ = test
    (root / classes[-1] / "a copy.png").write_bytes(place.read_bytes())
    assert (root / classes[-1] / "a copy.png", 3) in site_files(root, classes, 0.2)[1]


def test_a_run_has_the_sites_for_clients(tree: Path, tmp_path: Path) -> None:
    data = {"name": "sites", "root": str(tree), "size": 8}
    words = {"model.name": "small-cnn", "train.rounds": 1, "upload.min_count": 2}
    result = Experiment("v4", **words, data=data, out=tmp_path / "run").run()
    assert result.summary.sites == ["north", "south"]
    assert result.summary.label_table == TRAINED
    assert result.config.partition.clients == 2
    shown = command("data", "show", "sites", f"data.root={tree}", "data.size=8", cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr


def test_a_tree_of_sites_is_no_folder_of_classes(tree: Path) -> None:
    with pytest.raises(
        UserError, match=r"north, south are sites and dog classes, use data\.name=sites"
    ):
        load_dataset(DataOptions(name="folder", root=str(tree), size=8))
    with pytest.raises(UserError, match=r"needs data\.name=sites"):
        Experiment("v4", partition={"kind": "sites"}).run()


def test_a_table_of_file_and_site_makes_a_partition(tree: Path, tmp_path: Path) -> None:
    root = tree / "north"
    lines = ["file,site", *(f"cat/{n:02d}.bmp,{'ab'[n % 2]}" for n in range(10))]
    table = tmp_path / "sites.csv"
    table.write_text("\n".join([*lines, *(f"dog/{n:02d}.bmp,b" for n in range(5))]))
    done = command("data", "split", str(root), str(table), "-o", "p.json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "client 0: a, 4 images" in done.stdout
    dataset = load_dataset(DataOptions(name="folder", root=str(root), size=8))
    found = load_partition(tmp_path / "p.json", "folder", dataset.train.labels)
    assert [len(own) for own in found.clients] == [4, 8]
    table.write_text("\n".join(lines))
    refused = command("data", "split", str(root), str(table), cwd=tmp_path)
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    assert "names no site for dog/00.bmp" in refused.stderr
    table.write_text("cat/00.bmp,a\nbird/00.bmp,b")
    refused = command("data", "split", str(root), str(table), cwd=tmp_path)
    assert "bird/00.bmp is no image" in refused.stderr
