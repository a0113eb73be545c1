"""A predictor outside this package: graphs, the example service, and pictures it should not judge."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from runpy import run_path
from wsgiref.util import setup_testing_defaults

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.datasets import load_digits

from anchorfl import Experiment, load_run
from anchorfl.describe import Sums, second_moments, with_constant
from anchorfl.errors import UserError
from anchorfl.experiment import Result
from anchorfl.model import Familiarity, FusedModel, export, exporting
from anchorfl.model.exporting import Answers
from tests.conftest import ROOT, command

DIGITS = torch.from_numpy(load_digits().images).float()[:, None] / 16


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Result:
    folder = tmp_path_factory.mktemp("serving") / "run"
    fusions = "sketch-guided,class-mean"
    return Experiment("v4", train={"rounds": 1}, fusion=fusions, seed=1, device="cpu", out=folder).run()


def test_graphs_end_in_probabilities_and_say_how_to_call_them(result: Result, tmp_path: Path) -> None:
    runtime = pytest.importorskip("onnxruntime")
    images, predictor = DIGITS[:5], result.predictor
    wanted = predictor.probabilities(images)
    for name in ("model.onnx", "model.pt2"):
        done = command("export", str(result.folder), name, "--probabilities", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    session = runtime.InferenceSession(tmp_path / "model.onnx")
    found, far = session.run(["probabilities", "unfamiliarity"], {"images": images.numpy()})
    torch.testing.assert_close(torch.from_numpy(found), wanted, atol=1e-4, rtol=1e-3)
    torch.testing.assert_close(
        torch.from_numpy(far), predictor.unfamiliarity(images), atol=1e-3, rtol=1e-3
    )
    interface = json.loads(session.get_modelmeta().custom_metadata_map["interface"])
    assert interface["input"]["shape"] == session.get_inputs()[0].shape == ["batch", 1, 8, 8]
    assert interface["outputs"] == [
        {"name": each.name, "shape": each.shape} for each in session.get_outputs()
    ]
    assert interface["class_names"] == predictor.class_names
    program = torch.export.load(tmp_path / "model.pt2").module()
    torch.testing.assert_close(program(images)[0], wanted, atol=1e-4, rtol=1e-3)


def test_safetensors_take_no_probabilities(result: Result, tmp_path: Path) -> None:
    done = command("export", str(result.folder), "m.safetensors", "--probabilities", cwd=tmp_path)
    assert done.returncode == 2
    assert "--probabilities is for .pt2 and .onnx" in done.stderr


def test_a_file_that_answers_otherwise_is_not_kept(
    result: Result, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def damaged(answers: Answers, path: Path) -> None:
        answers.model.save(path)
        again = FusedModel.load(path)
        for value in again.head.buffers():
            if value.is_floating_point():
                value.mul_(1.1)
        again.save(path)

    monkeypatch.setitem(exporting.FORMATS, ".safetensors", (damaged, exporting.read_stored))
    with pytest.raises(UserError, match="its answers differ from the model's"):
        export(result.predictor, tmp_path / "model.safetensors")
    assert list(tmp_path.iterdir()) == []


def test_an_encoder_of_ones_own_is_loaded_where_the_user_names_it(tmp_path: Path) -> None:
    code = "from torch import nn\ndef wide(shape):\n    return nn.Sequential(nn.Flatten())\n"
    (tmp_path / "own.py").write_text(code)
    words = ("run", "v4", "model.name=own.py:wide", "train.rounds=1", "device=cpu", "out=run")
    assert command(*words, cwd=tmp_path).returncode == 0
    own = ("--model", "own.py:wide")
    for name, trusting in (("m.safetensors", ("--trust",)), ("n.safetensors", own), ("m.pt2", own)):
        done = command("export", "run", name, *trusting, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    refused = command("evaluate", "m.safetensors", "--data", "digits", cwd=tmp_path)
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    assert "its encoder is code:wide" in refused.stderr
    assert "--model FILE.py:NAME" in refused.stderr
    measured = command("evaluate", "n.safetensors", "--data", "digits", *own, cwd=tmp_path)
    share = load_run(tmp_path / "run").accuracy["sketch-guided"]
    assert f"{100 * share:.1f} %" in measured.stdout


def test_what_is_unlike_all_images_is_above_the_limit(result: Result, tmp_path: Path) -> None:
    export(result.predictor, tmp_path / "model.safetensors")
    again = FusedModel.load(tmp_path / "model.safetensors")
    noise = torch.rand(100, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    for images in (torch.zeros(1, 1, 8, 8), torch.ones(1, 1, 8, 8), noise, 1 - DIGITS[:100]):
        far = again.unfamiliarity(images)
        assert far is not None
        assert (far > 1).double().mean() > 0.95
    real = again.unfamiliarity(DIGITS)
    assert real is not None
    assert (real > 1).double().mean() < 0.02
    torch.testing.assert_close(real, result.predictor.unfamiliarity(DIGITS))


def test_predict_marks_it_and_a_table_has_its_column(result: Result, tmp_path: Path) -> None:
    Image.new("L", (8, 8)).save(tmp_path / "black.png")
    Image.fromarray((255 * DIGITS[3, 0]).byte().numpy()).save(tmp_path / "digit.png")
    words = ("predict", str(result.folder), "black.png", "digit.png", "--csv", "out.csv")
    shown = command(*words, cwd=tmp_path).stdout.splitlines()
    assert ["unlike all sites' images" in line for line in shown] == [True, False]
    rows = list(csv.DictReader((tmp_path / "out.csv").open()))
    assert [float(row["unfamiliarity"]) > 1 for row in rows] == [True, False]


def test_without_a_description_there_is_no_measure(result: Result, tmp_path: Path) -> None:
    words = ("fuse", str(result.folder), "fusion=class-mean", "--export", "m.safetensors")
    assert command(*words, cwd=tmp_path).returncode == 0
    assert FusedModel.load(tmp_path / "m.safetensors").unfamiliarity(DIGITS[:2]) is None


def test_the_limit_is_twice_what_unseen_rows_have() -> None:
    draw = torch.Generator().manual_seed(0)
    scales = torch.linspace(1, 0.05, 100)
    classes = torch.eye(3)[torch.arange(2000) % 3]
    rows = torch.randn(2000, 100, generator=draw) * scales + classes @ torch.ones(3, 100)
    found = Familiarity.of(Sums.of(second_moments(with_constant(rows), classes)))
    assert found is not None
    unseen = torch.randn(2000, 100, generator=draw) * scales + 1
    assert float(found(unseen).mean()) == pytest.approx(0.5, rel=0.05)
    assert Familiarity.of(Sums.of(second_moments(with_constant(rows[:20]), classes[:20]))) is None


def test_so_it_is_where_many_classes_take_up_much_of_the_rows() -> None:
    """Every class mean is a direction that the covariance cannot vary in any more.

    600 classes of a single row, far from 1400 rows of one class.
    """
    draw = torch.Generator().manual_seed(0)
    rows = torch.randn(2000, 65, generator=draw, dtype=torch.float64)
    labels = (torch.arange(2000) - 1399).clamp(min=0)
    far = torch.nn.functional.normalize(rows[1400:], dim=1)
    rows[1400:] = 20 * far
    classes = torch.nn.functional.one_hot(labels).double()
    found = Familiarity.of(Sums.of(second_moments(with_constant(rows), classes)))
    assert found is not None
    unseen = torch.randn(2000, 65, generator=draw)
    assert float(found(unseen).mean()) == pytest.approx(0.5, rel=0.03)


def test_a_picture_of_one_shade_is_unlike_all_whatever_the_classes() -> None:
    draw = torch.Generator().manual_seed(0)
    rows = torch.nn.functional.normalize(torch.randn(2000, 30, generator=draw), dim=1)
    found = Familiarity.of(Sums.of(second_moments(with_constant(rows), torch.ones(2000, 1))))
    assert found is not None
    assert float(found(torch.zeros(1, 30))) > 1
    assert (found(rows) < 1).double().mean() > 0.98


@pytest.fixture(scope="module")
def service(result: Result, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    pytest.importorskip("onnxruntime")
    model = tmp_path_factory.mktemp("service") / "model.onnx"
    export(result.predictor, model, probabilities=True)
    script = [sys.executable, str(ROOT / "examples" / "serve_onnx.py"), "0"]
    known = {**os.environ, "MODEL": str(model)}
    with subprocess.Popen(script, stdout=subprocess.PIPE, text=True, env=known) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


def asked(address: str, data: bytes | None = None) -> dict[str, object]:
    with urllib.request.urlopen(address, data, timeout=30) as answer:
        return dict(json.load(answer))


def test_the_service_answers_as_predict_does(service: str, result: Result, tmp_path: Path) -> None:
    assert asked(f"{service}/health") == {"status": "ok", "classes": [str(each) for each in range(10)]}
    shade = (255 * DIGITS[3, 0]).byte().numpy()
    Image.fromarray(np.kron(shade, np.ones((3, 3), np.uint8))).save(tmp_path / "digit.png")
    command("predict", str(result.folder), "digit.png", "--csv", "out.csv", cwd=tmp_path)
    (row,) = csv.DictReader((tmp_path / "out.csv").open())
    answer = asked(service, (tmp_path / "digit.png").read_bytes())
    assert answer["class"] == row["class1"]
    assert answer["probability"] == pytest.approx(float(row["probability1"]), abs=1e-3)
    assert answer["unfamiliarity"] == pytest.approx(float(row["unfamiliarity"]), abs=1e-2)
    assert answer["unlike"] is False
    Image.new("L", (8, 8)).save(tmp_path / "black.png")
    assert asked(service, (tmp_path / "black.png").read_bytes())["unlike"] is True
    Image.new("RGBA", (8, 8)).save(tmp_path / "clear.png")
    for data in (b"no picture", (tmp_path / "clear.png").read_bytes()):
        with pytest.raises(urllib.error.HTTPError, match="400"):
            asked(service, data)


def test_the_service_is_a_wsgi_application_and_wants_probabilities(
    result: Result, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("onnxruntime")
    script = str(ROOT / "examples" / "serve_onnx.py")
    export(result.predictor, tmp_path / "p.onnx", probabilities=True)
    export(result.predictor, tmp_path / "s.onnx")
    monkeypatch.setenv("MODEL", str(tmp_path / "p.onnx"))
    service = run_path(script)["service"]
    request: dict[str, object] = {"PATH_INFO": "/health"}
    setup_testing_defaults(request)  # without the length of a body, as of a GET
    seen: list[str] = []
    (body,) = service(request, lambda status, headers: seen.append(status))
    assert (seen, json.loads(body)["status"]) == (["200 OK"], "ok")
    monkeypatch.setenv("MODEL", str(tmp_path / "s.onnx"))
    with pytest.raises(SystemExit, match="--probabilities"):
        run_path(script)
