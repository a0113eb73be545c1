"""What a person does with a finished run: export it, ask it, measure it, make one model of it."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.datasets import load_digits

from anchorfl import Experiment
from anchorfl.data import ImageFacts, load_dataset
from anchorfl.engine import uploads_of
from anchorfl.errors import UserError
from anchorfl.experiment import Result
from anchorfl.predictor import Predictor, build_predictor, distill, export, find_source, load_predictor
from anchorfl.predictor.distillation import Source
from anchorfl.predictor.stored import write_safetensors
from anchorfl.registry import FUSIONS
from anchorfl.wire import pack, unpack
from tests.conftest import CPU, command

PREDICTING = [name for name in FUSIONS.names() if not FUSIONS.get(name).transductive]
IMAGES = torch.rand(5, 1, 8, 8, generator=torch.Generator().manual_seed(0))


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Result:
    folder = tmp_path_factory.mktemp("answers") / "run"
    names = ["sketch-guided", *(name for name in FUSIONS.names() if name != "sketch-guided")]
    partition = {"public": 0.2}
    settings = {"seed": 3, "device": "cpu", "fusion": ",".join(names), "partition": partition}
    return Experiment("v7", data={"flip": True}, train={"rounds": 3}, out=folder, **settings).run()


def predictor_of(result: Result, name: str) -> Predictor:
    config = replace(result.config, fusion={name: result.config.fusion[name]})
    uploads = uploads_of(result.run, CPU)
    facts = ImageFacts.from_json(result.summary.images or {})
    return build_predictor(config, facts, uploads, result.summary.class_names or [])


@pytest.mark.parametrize("name", PREDICTING)
def test_every_fusion_comes_back_from_its_file(result: Result, name: str, tmp_path: Path) -> None:
    predictor = predictor_of(result, name)
    export(predictor, tmp_path / "model.safetensors")
    again = load_predictor(tmp_path / "model.safetensors")
    torch.testing.assert_close(again(IMAGES), predictor(IMAGES), atol=1e-4, rtol=1e-4)
    assert again.card == predictor.card


@pytest.mark.parametrize("name", ["sketch-guided", "joint-sketch-ridge", "softmax-mean"])
def test_torch_export_and_onnx_give_the_same_scores_for_any_batch(
    result: Result, name: str, tmp_path: Path
) -> None:
    runtime = pytest.importorskip("onnxruntime")
    predictor = predictor_of(result, name)
    export(predictor, tmp_path / "model.pt2")
    extra = {"card.json": ""}
    program = torch.export.load(tmp_path / "model.pt2", extra_files=extra).module()
    assert json.loads(extra["card.json"])["class_names"] == predictor.class_names
    export(predictor, tmp_path / "model.onnx")
    session = runtime.InferenceSession(tmp_path / "model.onnx")
    assert "card" in session.get_modelmeta().custom_metadata_map
    for count in (1, 5):
        wanted = predictor(IMAGES[:count])
        torch.testing.assert_close(program(IMAGES[:count]), wanted, atol=1e-4, rtol=1e-4)
        (scores,) = session.run(None, {"images": IMAGES[:count].numpy()})
        torch.testing.assert_close(torch.from_numpy(scores), wanted, atol=1e-4, rtol=1e-4)


def rewrite(path: Path, old: str, new: str) -> None:
    """Change what a file says, as its writer could have: the digest fits."""
    content, tensors = unpack("predictor", path.read_bytes())
    changed = json.loads(json.dumps(content).replace(old, new))
    path.write_bytes(pack("predictor", changed, {k.replace(old, new): v for k, v in tensors.items()}))


def test_a_file_names_kinds_of_heads_and_nothing_else(result: Result, tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    export(predictor_of(result, "class-mean"), path)
    rewrite(path, "OwnersHead", "os.systems")
    with pytest.raises(UserError, match=r"unknown kind 'os\.systems'"):
        load_predictor(path)


def test_a_file_brings_no_code_along(result: Result, tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    predictor = predictor_of(result, "class-mean")
    evil = tmp_path / "evil.py"
    evil.write_text(f"from pathlib import Path\nPath({str(tmp_path / 'ran')!r}).touch()\n")
    predictor.card = replace(predictor.card, models=[f"{evil}:make"] * len(predictor.encoders))
    with pytest.raises(UserError, match=r"was not kept.*export such a predictor as \.pt2 or \.onnx"):
        export(predictor, path)
    assert list(tmp_path.iterdir()) == [evil]
    write_safetensors(predictor, path)
    with pytest.raises(UserError, match="code that a file may not bring along"):
        load_predictor(path)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"kind"', '"kinD"'),
        ('"plain"', '"plaiN"'),
        ('"temperature": 0.4', '"temperature": "ab"'),
        ("head/directions", "head/directionz"),
    ],
)
def test_a_broken_file_is_one_line(result: Result, tmp_path: Path, old: str, new: str) -> None:
    path = tmp_path / "model.safetensors"
    export(predictor_of(result, "class-mean"), path)
    before = path.read_bytes()
    rewrite(path, old, new)
    assert path.read_bytes() != before
    with pytest.raises(UserError):
        load_predictor(path)


def test_costs_of_every_fusion_are_in_the_summary(result: Result) -> None:
    flops = result.summary.prediction_flops or {}
    assert set(flops) == set(FUSIONS.names())
    assert flops["class-mean"] > 4 * flops["parameter-mean"] > 0
    assert flops["sketch-ridge"] < flops["parameter-mean"]
    assert all(value > 0 for value in (result.summary.prediction_ms or {}).values())
    assert all(value > 0 for value in (result.summary.server_seconds or {}).values())


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Test digits as pictures, larger than the predictor takes, in a folder per class."""
    root = tmp_path_factory.mktemp("photos")
    digits = load_digits()
    for label in range(10):
        (root / str(label)).mkdir()
        for number in np.flatnonzero(digits.target == label)[4:15:5]:
            picture = Image.fromarray((digits.images[number] * 15.9).astype(np.uint8))
            picture.resize((24, 24), Image.Resampling.NEAREST).save(root / str(label) / f"{number}.png")
    return root


def test_the_commands_predict_images_and_measure(result: Result, photos: Path, tmp_path: Path) -> None:
    model = str(tmp_path / "model.safetensors")
    assert command("export", str(result.folder), model, cwd=tmp_path).returncode == 0
    table = tmp_path / "predictions.csv"
    done = command("predict", model, str(photos), "--top", "2", "--csv", str(table), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    rows = list(csv.DictReader(table.open()))
    right = np.mean([Path(row["file"]).parent.name == row["class1"] for row in rows])
    assert len(rows) == 30
    assert right > 0.8
    assert all(float(row["probability1"]) >= float(row["probability2"]) for row in rows)
    measured = command("evaluate", model, "--data", str(photos), cwd=tmp_path)
    assert f"{100 * right:.1f} %" in measured.stdout
    whole = command("evaluate", str(result.folder), "--data", "digits", cwd=tmp_path)
    assert f"{100 * result.accuracy['sketch-guided']:.1f} %" in whole.stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("predict", "RUN", "absent.png"), "absent.png: no such file"),
        (("predict", "absent", "x.png"), "absent: no such file or folder"),
        (("export", "RUN", "model.bin"), "ends in none of .safetensors, .pt2, .onnx"),
        (("evaluate", "RUN", "--data", "mnist"), "anchorfl data fetch mnist"),
        (("distill", "RUN", "--out", "student.bin"), "ends in none of"),
        (("evaluate", "RUN", "--data", "nowhere"), "neither a folder nor one of digits"),
        (("distill", "RUN", "--images", "nowhere"), "no folder that holds images"),
    ],
)
def test_mistakes_end_in_one_line(
    result: Result, words: tuple[str, ...], message: str, tmp_path: Path
) -> None:
    words = tuple(str(result.folder) if word == "RUN" else word for word in words)
    done = command(*words, cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_student_learns_the_ensemble_from_unlabelled_images(result: Result) -> None:
    dataset = load_dataset(result.config.data)
    source = find_source(result.run, result.predictor.shape, dataset, None)
    assert source.name.startswith("the public share")
    student = distill(result.predictor, result.config, source, 400, lambda step: None)
    digits = load_digits()
    images = torch.from_numpy(digits.images).float()[:, None] / 16
    teacher = result.predictor(images).argmax(dim=1)
    agreed = float((student(images).argmax(dim=1) == teacher).double().mean())
    assert agreed > 0.9
    assert len(student.encoders) == 1
    torch.testing.assert_close(student(images[:1])[0], student(images)[0], atol=1e-4, rtol=1e-4)


def test_without_images_a_student_gets_synthetic_ones(result: Result) -> None:
    run = replace(result.run, settings={**result.run.settings, "partition.public": 0.0})
    dataset = load_dataset(result.config.data)
    source = find_source(run, result.predictor.shape, dataset, None)
    assert "synthetic" in source.name
    assert source.images.shape[1:] == (1, 8, 8)
    assert source.images.dtype == torch.uint8
    assert 40 < source.images.float().std() < 120


def test_a_distillation_that_was_cut_off_goes_on_to_the_same_student(
    result: Result, tmp_path: Path
) -> None:
    images = torch.randint(0, 256, (40, *result.predictor.shape), dtype=torch.uint8)
    source, keep = Source(images, "noise"), tmp_path / "student.unfinished"
    whole = distill(result.predictor, result.config, source, 40, lambda step: None)

    def cut(step: int) -> None:
        if step == 25:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        distill(result.predictor, result.config, source, 40, cut, keep)
    steps: list[int] = []
    again = distill(result.predictor, result.config, source, 40, steps.append, keep)
    assert steps[0] == 24
    for name, value in whole.state_dict().items():
        assert torch.equal(value, again.state_dict()[name]), name
    keep.write_bytes(keep.read_bytes()[:-1])
    steps.clear()
    distill(result.predictor, result.config, source, 40, steps.append, keep)
    assert steps[0] == 0


def test_predict_goes_on_past_a_bad_picture_and_says_where_it_is_unsure(
    result: Result, tmp_path: Path
) -> None:
    folder = tmp_path / "pictures"
    folder.mkdir()
    for number in range(2):
        picture = torch.randint(256, (8, 8), generator=torch.Generator().manual_seed(number))
        Image.fromarray(picture.to(torch.uint8).numpy()).save(folder / f"{number}.png")
    (folder / "0-bad.png").write_text("no picture")
    words = ("predict", str(result.folder), "pictures", "--csv", "out.csv")
    done = command(*words, "--min-probability", "1", cwd=tmp_path)
    assert done.returncode == 1
    shown = done.stdout.splitlines()
    assert [line.split(":")[0] for line in shown[:2]] == ["pictures/0.png", "pictures/1.png"]
    assert all(": unsure, " in line for line in shown[:2])
    assert shown[2:] == [
        "1 of 3 files could not be read:",
        "pictures/0-bad.png: truncated, corrupt or not an image",
    ]
    rows = (tmp_path / "out.csv").read_text().splitlines()
    assert len(rows) == 3
    assert all(",unsure," in row for row in rows[1:])


def test_a_result_is_shown_in_a_line(result: Result) -> None:
    assert repr(result).startswith("Result(v")
    assert len(repr(result)) < 400
