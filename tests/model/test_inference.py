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
from anchorfl.data import load_dataset
from anchorfl.errors import UserError
from anchorfl.experiment import Result
from anchorfl.fusion import FUSIONS
from anchorfl.messages import pack, unpack
from anchorfl.model import FusedModel, Source, distill, export
from anchorfl.simulate import FusedAgain, fuse_again, unlabelled
from tests.conftest import command

PREDICTING = [name for name in FUSIONS.names() if not FUSIONS.get(name).transductive]
IMAGES = torch.rand(5, 1, 8, 8, generator=torch.Generator().manual_seed(0))


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Result:
    folder = tmp_path_factory.mktemp("answers") / "run"
    names = ["sketch-guided", *(name for name in FUSIONS.names() if name != "sketch-guided")]
    partition = {"public": 0.2}
    settings = {"seed": 3, "device": "cpu", "fusion": ",".join(names), "partition": partition}
    return Experiment("v7", data={"flip": True}, train={"rounds": 3}, out=folder, **settings).run()


@pytest.fixture(scope="module")
def fused(result: Result) -> FusedAgain:
    return fuse_again(result.run, {"device": "cpu"}, every=True)


def model_of(fused: FusedAgain, name: str) -> FusedModel:
    return fused.server.model(name, fused.fused[name], fused.temperatures[name])


@pytest.mark.parametrize("name", PREDICTING)
def test_every_fusion_comes_back_from_its_file(fused: FusedAgain, name: str, tmp_path: Path) -> None:
    model = model_of(fused, name)
    export(model, tmp_path / "model.safetensors")
    again = FusedModel.load(tmp_path / "model.safetensors")
    assert torch.equal(again(IMAGES), model(IMAGES))
    assert again.card == model.card
    assert again.hash == model.hash


@pytest.mark.parametrize("name", ["sketch-guided", "joint-sketch-ridge", "softmax-mean"])
def test_torch_export_and_onnx_give_the_same_scores_for_any_batch(
    fused: FusedAgain, name: str, tmp_path: Path
) -> None:
    runtime = pytest.importorskip("onnxruntime")
    model = model_of(fused, name)
    export(model, tmp_path / "model.pt2")
    extra = {"card.json": ""}
    program = torch.export.load(tmp_path / "model.pt2", extra_files=extra).module()
    assert json.loads(extra["card.json"])["class_names"] == model.class_names
    export(model, tmp_path / "model.onnx")
    session = runtime.InferenceSession(tmp_path / "model.onnx")
    assert "card" in session.get_modelmeta().custom_metadata_map
    for count in (1, 5):
        wanted = model(IMAGES[:count])
        torch.testing.assert_close(program(IMAGES[:count]), wanted, atol=1e-4, rtol=1e-4)
        (scores,) = session.run(None, {"images": IMAGES[:count].numpy()})
        torch.testing.assert_close(torch.from_numpy(scores), wanted, atol=1e-4, rtol=1e-4)


def rewrite(path: Path, old: str, new: str) -> None:
    """Change what a file says, as its writer could have: the digest fits."""
    content, tensors = unpack("model", path.read_bytes())
    changed = json.loads(json.dumps(content).replace(old, new))
    path.write_bytes(pack("model", changed, {k.replace(old, new): v for k, v in tensors.items()}))


def test_a_file_names_kinds_of_heads_and_nothing_else(fused: FusedAgain, tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    export(model_of(fused, "class-mean"), path)
    rewrite(path, "OwnersHead", "os.systems")
    with pytest.raises(UserError, match=r"unknown kind 'os\.systems'"):
        FusedModel.load(path)


def test_a_file_brings_no_code_along(fused: FusedAgain, tmp_path: Path) -> None:
    """Whatever it says that its encoder is; the user's own word alone has it imported."""
    path, evil, ran = (tmp_path / name for name in ("model.safetensors", "evil.py", "ran"))
    touch = f"from pathlib import Path\nPath({str(ran)!r}).touch()\n"
    evil.write_text(f"{touch}from anchorfl.nn.encoders import small_cnn as make\n")
    model = model_of(fused, "class-mean")
    for name in (f"{evil}:make", "code:make", "os:system"):
        model.card = replace(model.card, models=[name] * len(model.encoders))
        model.save(path)
        with pytest.raises(UserError, match="code that no file brings along; add --model FILE"):
            FusedModel.load(path)
        with pytest.raises(UserError, match="code that no file brings along, and --model names"):
            FusedModel.load(path, [f"{evil}:other"])
    assert not ran.exists()
    model.card = replace(model.card, models=["code:make"] * len(model.encoders))
    export(model, path)
    assert not ran.exists()
    again = FusedModel.load(path, [f"{evil}:make"])
    assert ran.exists()
    assert torch.equal(again(IMAGES), model(IMAGES))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"kind"', '"kinD"'),
        ('"plain"', '"plaiN"'),
        ('"temperature": 0.4', '"temperature": "ab"'),
        ("head/directions", "head/directionz"),
    ],
)
def test_a_broken_file_is_one_line(fused: FusedAgain, tmp_path: Path, old: str, new: str) -> None:
    path = tmp_path / "model.safetensors"
    export(model_of(fused, "class-mean"), path)
    before = path.read_bytes()
    rewrite(path, old, new)
    assert path.read_bytes() != before
    with pytest.raises(UserError, match=f"{path}: .*model") as error:
        FusedModel.load(path)
    assert "\n" not in str(error.value)


def test_a_file_that_holds_no_model_is_refused(result: Result, tmp_path: Path) -> None:
    upload = result.run.files.upload(0)
    with pytest.raises(UserError, match=f"{upload}: these bytes are not a valid model"):
        FusedModel.load(upload)
    with pytest.raises(UserError, match="absent: no such file"):
        FusedModel.load(tmp_path / "absent")


def test_costs_of_every_fusion_are_in_the_summary(result: Result) -> None:
    flops = result.summary.prediction_flops or {}
    assert set(flops) == set(FUSIONS.names())
    assert flops["class-mean"] > 4 * flops["parameter-mean"] > 0
    assert flops["sketch-ridge"] < flops["parameter-mean"]
    assert all(value > 0 for value in (result.summary.prediction_ms or {}).values())
    assert all(value > 0 for value in (result.summary.server_seconds or {}).values())


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Test digits as pictures, larger than the model takes, in a folder per class."""
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
    source = unlabelled(result.run, dataset, result.predictor.shape, None)
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
    source = unlabelled(run, dataset, result.predictor.shape, None)
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
