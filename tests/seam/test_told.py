"""What the people at the ends of a federation by files are told where something is amiss."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from anchorfl.diagnose import diagnose
from anchorfl.messages import pack, unpack
from anchorfl.report.page import page_data
from anchorfl.runs import read_run
from anchorfl.transport import site_training
from tests.conftest import command

PRESET = """
method: v4
data: {name: sites, size: 8, flip: false}
train: {rounds: 1, batch_size: 32}
fusion: class-mean,sketch-ridge
"""
CLASSES = ("circle", "sqare", "ring", "cross")
SITES = {"north": {"circle": 16, "sqare": 16}, "south": {"sqare": 16, "ring": 5}}
"""Nobody has a cross, and nobody upload.min_count rings."""
UNDESCRIBED = "o upload describes ring, cross (nobody has upload.min_count=10 samples)"


def told(place: Path, *words: str) -> str:
    done = command(*words, cwd=place)
    assert done.returncode == 0, done.stderr
    return done.stdout


def refused(place: Path, *words: str) -> str:
    done = command(*words, cwd=place)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    return done.stderr


def new_task(place: Path, out: str, *words: str, classes: str = "classes.txt") -> tuple[str, ...]:
    return ("task", "new", str(place / "x.yaml"), classes, "-o", out, "--grey", *words)


def draw(folder: Path, pictures: int) -> None:
    folder.mkdir(parents=True)
    generator = np.random.default_rng(len(folder.name))
    for number in range(pictures):
        image = generator.integers(0, 256, (8, 8), dtype=np.uint8)
        Image.fromarray(image).save(folder / f"{number:02d}.png")


def train(task: str, name: str, out: str) -> list[str]:
    return ["site", "train", task, "--data", name, "--name", name, "-o", out, "--device", "cpu"]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two sites, their uploads, and south's upload for another task."""
    folder = tmp_path_factory.mktemp("told")
    (folder / "x.yaml").write_text(PRESET)
    (folder / "classes.txt").write_text("\ufeff" + "\n".join(CLASSES), encoding="utf-8")
    for site, held in SITES.items():
        for name, pictures in held.items():
            draw(folder / site / name, pictures)
    told(folder, *new_task(folder, "task.safetensors"))
    told(folder, *new_task(folder, "other.safetensors", "--set", "seed=4"))
    for site in SITES:
        told(folder, *train("task.safetensors", site, f"{site}.upload"))
    told(folder, *train("other.safetensors", "south", "other.upload"))
    return folder


def test_a_class_that_no_upload_describes_is_said_and_is_a_problem(place: Path) -> None:
    uploads = [f"{site}.upload" for site in SITES]
    output = told(place, "server", "fuse", "task.safetensors", *uploads, "-o", "both")
    run = read_run(place / "both")
    assert f"warning: n{UNDESCRIBED}" in output
    assert "refused" not in output
    assert [warning.startswith(f"n{UNDESCRIBED}") for warning in run.summary.warnings] == [True]
    assert [(each.about, each.problem) for each in diagnose(run)] == [("undescribed", True)]
    assert f"N{UNDESCRIBED}" in told(place, "diagnose", "both")


def test_a_refused_upload_is_a_problem_that_names_its_site(place: Path) -> None:
    (place / "bent.upload").write_bytes((place / "north.upload").read_bytes()[:-3])
    files = ["north.upload", "other.upload", "bent.upload"]
    done = command("server", "fuse", "task.safetensors", *files, "-o", "less", cwd=place)
    assert done.returncode == 1
    verdict = diagnose(read_run(place / "less"))[0]
    assert (verdict.about, verdict.problem) == ("refused", True)
    assert verdict.text.startswith(
        "2 files were refused; the model is made of the others: bent.upload:"
    )
    assert "the upload of south: answers another task" in verdict.text
    alone = refused(place, "server", "fuse", "task.safetensors", "other.upload", "-o", "none")
    assert "the upload of south: answers another task" in alone


def test_a_page_names_the_sites(place: Path) -> None:
    uploads = [f"{site}.upload" for site in SITES]
    told(place, "server", "fuse", "task.safetensors", *uploads, "-o", "paged")
    page = page_data(read_run(place / "paged"))
    assert page["subtitle"].startswith("2 sites, seed 0, 1 round")
    assert [row[0] for row in page["partition"]["rows"]] == ["north", "south"]


def test_a_site_may_lack_classes_and_is_not_warned_of_it(place: Path) -> None:
    assert read_run(place / "north.upload.training").summary.warnings == []


def test_a_stopped_site_goes_on_with_the_same_command(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*given: object) -> None:
        raise KeyboardInterrupt("north-2.upload.training")

    words = train("task.safetensors", "north", "north-2.upload")
    with monkeypatch.context() as patch:
        patch.setattr(site_training, "record", stopped)
        done = command(*words, cwd=place)
    assert done.returncode == 130
    assert done.stderr.endswith("stopped: the same command resumes where this ended\n")
    told(place, *words)


def test_a_site_is_shown_how_few_images_it_has_and_the_counts_that_leave(place: Path) -> None:
    checked = told(place, "site", "check", "task.safetensors", "--data", "north")
    inspected = told(place, "inspect", "north.upload")
    counts = read_run(place / "north.upload.training").class_counts(0)
    for output in (checked, inspected):
        here = f"statistics/sketch_moments here: {sum(counts)} images, 577 numbers: their span"
        assert here in output
    assert f"that leave: circle: {counts[0]}, sqare: {counts[1]}; 0 of the others" in checked
    assert f"that leave: class 0: {counts[0]}, class 1: {counts[1]}; 0 of the others" in inspected


def test_of_sums_in_fewer_bits_a_site_is_shown_the_same_and_that_they_are_its_own(place: Path) -> None:
    settings = PRESET + "describe: {sums: fp8}\n"
    (place / "short.yaml").write_text(settings)
    told(place, "task", "new", "short.yaml", "classes.txt", "-o", "short.safetensors", "--grey")
    told(place, *train("short.safetensors", "north", "short.upload"))
    inspected = " ".join(told(place, "inspect", "short.upload").split())
    assert "images, 576 numbers: their span" in inspected
    assert "sketch_moments (per site: a server reconstructs each site's sums" in inspected
    parts = json.loads(told(place, "inspect", "short.upload", "--json"))
    of_whom = {part["of_whom"] for part in parts if "sketch_moments" in part["name"]}
    assert len(of_whom) == 1
    assert "reconstructs each site's sums" in of_whom.pop()
    content, tensors = unpack("upload", (place / "short.upload").read_bytes())
    for name in ("counts", "means", "norms"):
        torn = {key: value for key, value in tensors.items() if not key.endswith(f"moments/{name}")}
        (place / "torn.upload").write_bytes(pack("upload", content, torn))
        assert "Traceback" not in command("inspect", "torn.upload", cwd=place).stderr


def test_a_task_is_not_overwritten_and_shows_its_hash(place: Path) -> None:
    before = (place / "task.safetensors").read_bytes()
    assert "is there already" in refused(place, *new_task(place, "task.safetensors"))
    assert (place / "task.safetensors").read_bytes() == before
    shown = told(place, "task", "show", "task.safetensors").split()
    start = shown[shown.index("hash") + 1]
    assert len(start) == 12
    assert f"hash {start}" in told(place, "site", "check", "task.safetensors", "--data", "north")
    assert f"task {start}" in told(place, "inspect", "north.upload")


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"circle\nring\ncircle\n", "'circle' stands there 2 times"),
        ("caf\u00e9\nring\n".encode("latin-1"), "is no text in UTF-8"),
        (b"circle\n", "two class names or more"),
    ],
)
def test_a_file_of_classes_that_is_none_is_refused(
    content: bytes, why: str, place: Path, tmp_path: Path
) -> None:
    (tmp_path / "c.txt").write_bytes(content)
    assert why in refused(tmp_path, *new_task(place, "t.safetensors", classes="c.txt"))


def test_folders_that_the_task_does_not_know_are_named_first(place: Path, tmp_path: Path) -> None:
    words = ("site", "check", str(place / "task.safetensors"), "--data")
    draw(tmp_path / "site" / "square", 3)
    draw(tmp_path / "site" / "ring", 3)
    why = refused(tmp_path, *words, "site")
    assert "unknown to the task: square; did you mean sqare? (the task's classes: circle, sqare" in why
    assert "holds pictures and no folder per class" in refused(tmp_path, *words, "site/ring")
    (tmp_path / "empty").mkdir()
    assert "holds no folder" in refused(tmp_path, *words, "empty")
