"""A start is made of nothing; all sites begin with it and describe by it, the same everywhere."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from typer.testing import CliRunner

from anchorfl import Experiment
from anchorfl.cli.main import app_of
from anchorfl.data import Augmentation, Shape, load_dataset
from anchorfl.describe import in_single, principal_basis
from anchorfl.errors import UserError
from anchorfl.experiment import load_run
from anchorfl.messages import Start, Task, Upload
from anchorfl.model import FusedModel, export
from anchorfl.prepare import Setup, describer_for, new_task
from anchorfl.runs import read_run
from anchorfl.settings import resolve
from anchorfl.simulate import fuse_again, run_in_folder
from anchorfl.site import Trainer
from anchorfl.start import StartOptions, make_start

OPTIONS = StartOptions(shape=(1, 8, 8), encoder="small-cnn", pictures=300, epochs=2, batch_size=64)


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> tuple[Start, Path]:
    made = make_start(OPTIONS, lambda count: None)
    file = tmp_path_factory.mktemp("start") / "start.safetensors"
    file.write_bytes(made.to_bytes())
    return made, file


def settings(file: Path, **others: object) -> dict[str, object]:
    return {"model.weights": str(file), "describe.width": 200, "train.rounds": 2, **others}


def test_a_start_survives_its_file_and_a_changed_byte_is_noticed(start: tuple[Start, Path]) -> None:
    made, file = start
    again = Start.from_bytes(file.read_bytes())
    assert again.hash == made.hash
    assert again.card["pictures"] == 300
    data = bytearray(file.read_bytes())
    data[-10] ^= 1
    with pytest.raises(UserError, match="damaged"):
        Start.from_bytes(bytes(data))


def test_a_start_that_was_cut_off_goes_on_to_the_same(
    start: tuple[Start, Path], tmp_path: Path
) -> None:
    seen = 0

    def interrupt(count: int) -> None:
        nonlocal seen
        seen += count
        if seen > 400:
            raise KeyboardInterrupt

    keep = tmp_path / "keep"
    with pytest.raises(KeyboardInterrupt):
        make_start(OPTIONS, interrupt, keep)
    trained: list[int] = []
    assert make_start(OPTIONS, trained.append, keep).hash == start[0].hash
    assert trained[0] == 300  # the first epoch is not trained again
    assert make_start(replace(OPTIONS, seed=1), lambda count: None, keep).hash != start[0].hash


def test_training_moves_every_layer(start: tuple[Start, Path]) -> None:
    untrained = make_start(replace(OPTIONS, epochs=0), lambda count: None)
    for name, value in start[0].weights.items():
        if value.is_floating_point():
            assert not torch.equal(value, untrained.weights[name]), name


@pytest.mark.parametrize(
    ("shape", "crop", "least"),
    [((1, 8, 8), None, 0.6), ((3, 12, 12), None, 0.2), ((3, 12, 12), 0.5, 0.5)],
)
def test_views_keep_what_is_usual_for_pictures_of_that_size_and_are_not_mirrored(
    shape: Shape, crop: float | None, least: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not for digits of 8 x 8 pixels, the data set that a run has where none is named."""
    drawn = []
    draw = Augmentation.draw

    def watched(recipe: Augmentation, count: int, generator: torch.Generator) -> torch.Tensor:
        drawn.append(draw(recipe, count, generator))
        return drawn[-1]

    monkeypatch.setattr(Augmentation, "draw", watched)
    make_start(replace(OPTIONS, shape=shape, crop=crop, epochs=1), lambda count: None)
    views = torch.cat(drawn)
    share = views[:, 2] * views[:, 3]
    assert least - 0.01 < share.min() < least + 0.05
    assert not views[:, 4].any()


def test_weights_are_taken_as_they_are_where_nothing_is_trained(
    start: tuple[Start, Path], tmp_path: Path
) -> None:
    weights = {name: value.contiguous() for name, value in start[0].weights.items()}
    save_file(weights, tmp_path / "w.safetensors")
    options = replace(OPTIONS, epochs=0, weights=str(tmp_path / "w.safetensors"))
    again = make_start(options, lambda count: None)
    for name, value in start[0].weights.items():
        assert torch.equal(value, again.weights[name]), name


def test_the_task_carries_it_once_and_every_encoder_describes_by_it(
    start: tuple[Start, Path],
) -> None:
    made, file = start
    config = resolve("v4", settings(file, **{"model.name": "small-cnn,resnet18"}))
    facts = load_dataset(config.data).facts
    setup = Setup(new_task(config, facts), config)
    task = setup.task
    assert task.start is not None
    assert all(task.weights[f"encoder.{name}"] is made_ for name, made_ in task.start.weights.items())
    data = task.to_bytes()
    weights = sum(value.nbytes for value in made.weights.values())
    assert len(data) < len(made.to_bytes()) + weights // 2
    arrived = Task.from_bytes(data)
    assert arrived.hash == task.hash
    images = torch.rand(3, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    rows = setup.describer()(images)
    assert rows.shape == (3, 200)
    assert (rows.norm(dim=1) <= 1 + 1e-5).all()
    there = Setup.of(arrived)
    for encoder in ("small-cnn", "resnet18"):
        describer = Trainer(there, torch.device("cpu"), encoder=encoder).describer
        torch.testing.assert_close(describer(images), rows)
    state = there.network("small-cnn").state_dict()
    for name, value in made.weights.items():
        assert torch.equal(state[f"encoder.{name}"], value)


def test_a_run_from_a_start_keeps_it_and_its_predictor_needs_nothing_else(
    start: tuple[Start, Path], tmp_path: Path
) -> None:
    made, file = start
    moved = tmp_path / "moved.safetensors"
    moved.write_bytes(file.read_bytes())
    words = settings(moved, fusion="sketch-guided,sketch-ridge,joint-sketch-ridge", seed=1)
    result = Experiment("v4", **words, out=tmp_path / "run").run()
    assert result.summary.start == made.hash
    moved.unlink()
    again = fuse_again(read_run(tmp_path / "run"), {}, every=False)
    assert again.evaluation.accuracy() == pytest.approx(result.accuracy, abs=1e-3)
    predictor = load_run(tmp_path / "run").predictor
    assert predictor.card.start == made.hash
    images = torch.rand(4, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    export(predictor, tmp_path / "model.safetensors")
    torch.testing.assert_close(
        FusedModel.load(tmp_path / "model.safetensors")(images), predictor(images)
    )
    other = replace(made, weights={**made.weights, "0.weight": made.weights["0.weight"] + 1})
    (tmp_path / "run" / "uploads" / "start.safetensors").write_bytes(other.to_bytes())
    with pytest.raises(UserError, match="not the start that the run had"):
        fuse_again(read_run(tmp_path / "run"), {}, every=False)
    shutil.rmtree(tmp_path / "run" / "uploads")
    torch.testing.assert_close(load_run(tmp_path / "run").predictor(images), predictor(images))


def test_mirrored_features_are_those_of_the_mirror_image_too(tmp_path: Path) -> None:
    words = {"model.mirrored": True, "data.flip": True, "train.rounds": 1, "fusion": "class-mean"}
    result = Experiment("v4", **words, out=tmp_path / "run").run()
    export(result.predictor, tmp_path / "model.safetensors")
    predictor = FusedModel.load(tmp_path / "model.safetensors")
    images = torch.rand(6, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(predictor(images), predictor(images.flip(3)), atol=1e-5, rtol=1e-4)
    again = fuse_again(read_run(tmp_path / "run"), {}, every=False)
    test = torch.from_numpy(load_dataset(result.config.data).test.images[:50]).float() / 255
    scores = again.evaluation.scores["class-mean"][:50]
    torch.testing.assert_close(predictor(test), scores, atol=1e-5, rtol=1e-4)


def test_a_zoomed_encoder_sees_the_middle_alone_in_runs_and_in_a_file(tmp_path: Path) -> None:
    words = {"model.zoom": 0.5, "train.rounds": 1, "fusion": "class-mean"}
    result = Experiment("v4", **words, out=tmp_path / "run").run()
    export(result.predictor, tmp_path / "model.safetensors")
    predictor = FusedModel.load(tmp_path / "model.safetensors")
    images = torch.rand(6, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    framed = torch.rand(6, 1, 8, 8, generator=torch.Generator().manual_seed(1))
    framed[:, :, 2:6, 2:6] = images[:, :, 2:6, 2:6]
    torch.testing.assert_close(predictor(images), predictor(framed))
    assert not torch.allclose(predictor(images), predictor(images.roll(2, dims=3)), atol=1e-3)
    again = fuse_again(read_run(tmp_path / "run"), {}, every=False)
    test = torch.from_numpy(load_dataset(result.config.data).test.images[:50]).float() / 255
    scores = again.evaluation.scores["class-mean"][:50]
    torch.testing.assert_close(predictor(test), scores, atol=1e-5, rtol=1e-4)


def test_what_a_task_carries_of_a_start_is_not_taken_for_one(
    start: tuple[Start, Path], tmp_path: Path
) -> None:
    part = tmp_path / "part.safetensors"
    part.write_bytes(start[0].cut(50).to_bytes())
    with pytest.raises(UserError, match="name the start itself"):
        new_task(resolve("v4", settings(part)), load_dataset(resolve("v4", {}).data).facts)


@pytest.mark.parametrize("zoom", [0.5, 1e-3])
def test_an_upload_is_of_what_encoders_are_shown(tmp_path: Path, zoom: float) -> None:
    words = {"train.rounds": 1, "fusion": "class-mean", "seed": 1}
    means = []
    for shown in (1.0, zoom):
        result = Experiment("v4", **words, **{"model.zoom": shown}, out=tmp_path / str(shown)).run()
        upload = Upload.from_bytes(sorted((result.folder / "uploads").glob("client-*"))[0].read_bytes())
        means.append(upload.statistic("class_means")["mean"])
    assert not torch.allclose(*means, atol=1e-2)


def test_a_basis_in_8_bits_describes_as_one_in_16_did(start: tuple[Start, Path]) -> None:
    """Any fixed map will do, as long as rows keep their norm; starts of before are in 16 bits."""
    made, _ = start
    assert made.basis.dtype == torch.uint8
    before = replace(made, basis=in_single(made.basis).half())
    before = Start.from_bytes(before.to_bytes())
    assert before.basis.dtype == torch.float16
    images = torch.rand(200, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    config = resolve("v4", {"data.flip": False, "describe.width": 400, "model.name": "small-cnn"})
    facts = load_dataset(config.data).facts
    rows, wide = (describer_for(config, facts, each) for each in (made, before))
    torch.testing.assert_close(rows(images), wide(images), rtol=1e-3, atol=1e-3)
    assert rows(images).norm(dim=1).max() < 1.001
    everything = rows.everything(images)
    assert (rows(images).norm(dim=1) > 0.9 * everything.norm(dim=1)).all()


def test_a_task_carries_as_much_of_a_start_as_its_descriptions_need(
    start: tuple[Start, Path],
) -> None:
    made, file = start
    setups = {}
    for width in (50, 200):
        config = resolve("v4", settings(file, **{"describe.width": width}))
        setups[width] = Setup(new_task(config, load_dataset(config.data).facts), config)
    sent = {width: setup.task.to_bytes() for width, setup in setups.items()}
    arrived, wider = Task.from_bytes(sent[50]), setups[200].task.start
    assert arrived.start is not None
    assert wider is not None
    assert arrived.start.basis.shape[1] == 50
    assert arrived.start.hash == wider.hash == made.hash
    assert len(sent[50]) < len(sent[200]) - 100 * len(made.basis)
    images = torch.rand(3, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    wide = setups[200].describer()(images)
    torch.testing.assert_close(Setup.of(arrived).describer()(images), wide[:, :50])


def test_an_unfinished_run_refuses_another_start(start: tuple[Start, Path], tmp_path: Path) -> None:
    made, file = start
    place = tmp_path / "start.safetensors"
    place.write_bytes(file.read_bytes())
    config = resolve("v4", settings(place, out=str(tmp_path / "run"), fusion="sketch-ridge"))

    def interrupt(event: object) -> None:
        if type(event).__name__ == "RoundEnded":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_in_folder(config, (interrupt,))
    other = replace(made, card={**made.card, "seed": 9})
    place.write_bytes(other.to_bytes())
    with pytest.raises(UserError, match=r"not the start that .* began with"):
        run_in_folder(config)
    place.write_bytes(file.read_bytes())
    assert run_in_folder(config).summary.status == "finished"


def test_nobody_trains_and_the_start_is_never_uploaded(
    start: tuple[Start, Path], tmp_path: Path
) -> None:
    result = Experiment("none", **settings(start[1]), out=tmp_path / "run").run()
    numbers = 201 * 202 // 2 + 201 * 10
    for size in result.summary.upload_bytes:
        assert size is not None
        assert size < 1.2 * numbers + 4000
    assert result.accuracy["sketch-ridge"] > 0.9


def test_sums_in_fewer_bytes_score_as_the_sums_do(start: tuple[Start, Path], tmp_path: Path) -> None:
    accuracy, sizes = {}, {}
    for kind in ("fp32", "fp16", None):
        words = settings(start[1], **({"describe.sums": kind} if kind else {}), seed=2)
        fusions = "sketch-lda,joint-sketch-ridge"
        result = Experiment("v4", **words, fusion=fusions, out=tmp_path / str(kind)).run()
        accuracy[kind] = result.accuracy
        sizes[kind] = result.summary.fusion_bytes or {}
        folder = read_run(tmp_path / str(kind))
        assert folder.settings["describe.sums"] == (kind or "fp8")
    for rule, exact in accuracy["fp32"].items():
        assert accuracy["fp16"][rule] == pytest.approx(exact, abs=0.006)
        assert accuracy[None][rule] == pytest.approx(exact, abs=0.012)
    assert sizes["fp16"]["sketch-lda"] < 0.55 * sizes["fp32"]["sketch-lda"]
    assert sizes[None]["sketch-lda"] < 0.32 * sizes["fp32"]["sketch-lda"]
    for kind in ("fp16", None):
        assert sizes[kind]["joint-sketch-ridge"] < 0.62 * sizes["fp32"]["joint-sketch-ridge"]
    assert sizes[None]["joint-sketch-ridge"] < sizes["fp16"]["joint-sketch-ridge"]


def test_a_basis_is_orthonormal_and_keeps_most_of_the_rows() -> None:
    generator = torch.Generator().manual_seed(0)
    for shape in ((40, 90), (90, 40)):
        rows = torch.randn(*shape, generator=generator) @ torch.diag(0.8 ** torch.arange(shape[1]))
        basis = principal_basis(rows, 20)
        torch.testing.assert_close(basis.T @ basis, torch.eye(20), atol=1e-5, rtol=0)
        assert (rows @ basis).square().sum() > 0.999 * rows.square().sum()
        assert ((rows @ basis).norm(dim=0).diff() <= 1e-4).all()


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["data.name=digits", "model.name=resnet18"], "the start's encoder is small-cnn"),
        (["model.name=small-cnn", "data.size=8"], "the start is for images of 1 channels"),
    ],
)
def test_a_start_that_does_not_fit_is_refused(
    words: list[str], why: str, start: tuple[Start, Path], tmp_path: Path
) -> None:
    from PIL import Image

    for part in ("train", "test"):
        for label in ("a", "b"):
            folder = tmp_path / "pictures" / part / label
            folder.mkdir(parents=True)
            for number in range(3):
                pixels = np.full((8, 8, 3), 40 * number + 20 * (label == "a"), dtype=np.uint8)
                pixels[:4, :, 0] = 200
                Image.fromarray(pixels).save(folder / f"{number}.png")
    if "data.name=digits" not in words:
        words = [*words, "data.name=folder", f"data.root={tmp_path / 'pictures'}"]
    given = dict(word.split("=", 1) for word in words)
    with pytest.raises(UserError, match=why):
        run_in_folder(resolve("v4", {**settings(start[1], out=str(tmp_path / "run")), **given}))


def test_the_command_makes_one_and_says_how_to_use_it(tmp_path: Path) -> None:
    file = tmp_path / "new" / "start.safetensors"
    words = ["start", str(file), "--pixels", "8", "--grey", "--pictures", "64", "--epochs", "1"]
    result = CliRunner().invoke(app_of(), words)
    assert result.exit_code == 0, result.output
    assert f"model.weights={file}" in result.output.replace("\n", "")
    made = Start.from_bytes(file.read_bytes())
    assert made.encoder == "small-cnn"
    assert [entry.name for entry in file.parent.iterdir()] == ["start.safetensors"]
