"""A folder of one's own images, looked through before a run."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from anchorfl.data import check_images, write_example
from anchorfl.errors import UserError
from tests.conftest import command


def pictures(folder: Path, count: int) -> None:
    folder.mkdir(parents=True)
    for number in range(count):
        Image.fromarray(np.full((8, 8), number, np.uint8)).save(folder / f"{number}.png")


def test_every_fault_is_listed_at_once(tmp_path: Path) -> None:
    root = tmp_path / "images"
    pictures(root / "cats", 10)
    pictures(root / "dogs", 3)
    pictures(root / "owls", 0)
    for name in ("broken.png", "torn.jpg"):
        (root / "cats" / name).write_text("no picture")
    (root / "cats" / "notes.txt").write_text("text")
    found = check_images(root, 0.2)
    assert found.kind == "folder"
    assert found.counts == {"cats": (8, 2), "dogs": (3, 0), "owls": (0, 0)}
    assert sorted(path.name for path, _ in found.bad) == ["broken.png", "torn.jpg"]
    assert (found.empty, found.untested) == (["owls"], ["dogs"])
    done = command("data", "check", "images", cwd=tmp_path)
    assert done.returncode == 1
    for said in ("broken.png", "torn.jpg", "class owls: a folder", "class dogs: no test", "(.txt)"):
        assert said in done.stdout


def test_sites_are_told_from_classes(tmp_path: Path) -> None:
    write_example(tmp_path / "example")
    found = check_images(tmp_path / "example", 0.2)
    assert (found.kind, len(found.counts), found.bad) == ("sites", 10, [])
    done = command("data", "check", "example", cwd=tmp_path)
    assert done.returncode == 0
    assert done.stdout.count("data.flip=true") == 1


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such folder"):
        check_images(tmp_path / "nowhere", 0.2)
