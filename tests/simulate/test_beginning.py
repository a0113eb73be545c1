"""What is chosen, said and refused before a run begins."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from anchorfl import Experiment
from anchorfl.events import Event, Listener, RoundEnded, RunStarted
from anchorfl.simulate import Simulation
from tests.conftest import command
from tests.simulate.folders import assert_same

CLASSES = 4


def write_images(root: Path, of_a_class: int) -> Path:
    """To train on, and 20 to test on, of 32 pixels: a bright band that every class has elsewhere."""
    draw = np.random.default_rng(0)
    for split, count in {"train": of_a_class, "test": 5}.items():
        for label in range(CLASSES):
            folder = root / split / f"class{label}"
            folder.mkdir(parents=True)
            for number in range(count):
                pixels = draw.integers(0, 90, (32, 32, 3), dtype=np.uint8)
                pixels[:, 8 * label : 8 * label + 8] += 120
                Image.fromarray(pixels).save(folder / f"{number}.png")
    return root


class CutError(Exception):
    """Ends a run from within."""


def test_few_images_of_ones_own_get_a_small_encoder_and_a_small_batch(tmp_path: Path) -> None:
    """By a large one, in one step per round, they learned nothing for ten minutes."""
    root = write_images(tmp_path / "images", 480 // CLASSES)

    def experiment(out: str) -> Experiment:
        data = {"name": "folder", "root": str(root)}
        settings = {"train": {"rounds": 3}, "device": "cpu", "fusion": "feature-mean"}
        return Experiment("v4", data=data, **settings, seed=1, threads=1, out=tmp_path / out)

    started: list[RunStarted] = []

    def listen(event: Event) -> None:
        if isinstance(event, RunStarted):
            started.append(event)

    def cut_after(number: int) -> Listener:
        def cut(event: Event) -> None:
            listen(event)
            if isinstance(event, RoundEnded) and event.round == number:
                raise CutError

        return cut

    whole = experiment("whole").run(listen)
    assert (whole.config.model.name, whole.config.train.batch) == ("small-cnn", 32)
    assert not whole.run.warnings
    for number in (1, 2):
        with pytest.raises(CutError):
            experiment("cut").run(cut_after(number))
    done = command("run", "cut", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    line = done.stdout.splitlines()[0]
    assert line.startswith("v4 on folder: small-cnn in batches of 32, 5 clients, 480 samples, 3 rounds")
    assert "2 of them done before" in line
    assert [(each.encoder, each.batch) for each in started] == [("small-cnn", 32)] * 3
    assert [each.begun for each in started] == [0, 0, 1]
    assert_same(tmp_path / "whole", tmp_path / "cut")


def test_what_is_chosen_by_the_images_goes_by_the_clients_there_are(tmp_path: Path) -> None:
    """A partition's file may hold fewer than the usual five."""
    data = {"name": "folder", "root": str(write_images(tmp_path / "images", 512 // CLASSES))}

    def prepared(partition: dict[str, object]) -> Simulation:
        return Simulation.prepare(Experiment("v4", data=data, partition=partition).config)

    alone = prepared({"kind": "iid", "clients": 1})
    assert prepared({"kind": "iid"}).config.train.batch == 32
    assert alone.config.train.batch == 64
    alone.partition.save(tmp_path / "one.json", "folder", alone.dataset.train.labels)
    assert prepared({"file": str(tmp_path / "one.json")}).config.train.batch == 64


def test_without_flower_a_run_on_it_leaves_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "flwr", None)
    for words in ((), ("out=here",)):
        done = command("run", "v4", "engine=flower", *words, cwd=tmp_path)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)
        assert "engine=flower: Flower is not installed: pip install 'anchorfl[flower]'" in done.stderr
        assert not list(tmp_path.iterdir())
