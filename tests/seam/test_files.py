"""Three sites by files, as separate processes on their own folders: exactly the simulation."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.datasets import load_digits

from anchorfl import Experiment
from anchorfl.fusion import FUSIONS
from anchorfl.messages import Task, Upload, manifest, pack, unpack
from anchorfl.model import FusedModel
from anchorfl.prepare import Setup
from anchorfl.runs import Run, read_run
from anchorfl.settings import read_preset
from anchorfl.site import Trainer
from anchorfl.transport import site_training
from tests.conftest import command, own_code_forgotten

SITES = {"north": [0, 1, 2, 3], "south": [3, 4, 5, 6], "west": [6, 7, 8, 9, 0]}
ENCODERS = {"north": "small-cnn", "south": "small-cnn", "west": "resnet18"}
PRESET = """
method: v12-gamma
data: {name: sites, size: 8, flip: false}
model: {name: "small-cnn,small-cnn,resnet18"}
train: {rounds: 2, batch_size: 64}
fusion: FUSION
seed: 3
"""
ALIKE = ["--threads", "1", "--telemetry", "--device", "cpu"]
PICTURES = 500


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """DIR/SITE/CLASS/picture; no site has all classes."""
    folder = tmp_path_factory.mktemp("files")
    digits = load_digits()
    for number, (image, label) in enumerate(zip(digits.images, digits.target, strict=True)):
        owners = [site for site, labels in SITES.items() if label in labels]
        if number < PICTURES:
            home = folder / "sites" / owners[number % len(owners)] / f"digit {label}"
            home.mkdir(parents=True, exist_ok=True)
            Image.fromarray((image * 255 / 16).astype(np.uint8)).save(home / f"{number:05d}.png")
    (folder / "sites" / "north" / "digit 9").mkdir()
    for picture in sorted((folder / "sites" / "west" / "digit 9").iterdir())[:3]:
        shutil.copy(picture, folder / "sites" / "north" / "digit 9" / f"copy-{picture.name}")
    (folder / "classes.txt").write_text("\n".join(f"digit {label}" for label in range(10)))
    return folder


def together(place: Path, *each: list[str]) -> None:
    """Processes at the same time, none of which knows another's folder."""
    words = [[sys.executable, "-m", "anchorfl", *one] for one in each]
    started = [subprocess.Popen(one, cwd=place, stderr=subprocess.PIPE) for one in words]
    for process in started:
        _, errors = process.communicate(timeout=300)
        assert process.returncode == 0, errors.decode()


def told(place: Path, *words: str, ends: int = 0) -> str:
    done = command(*words, cwd=place)
    assert done.returncode == ends, done.stderr
    return done.stdout


@pytest.fixture(scope="module", params=["sketch-guided,class-mean", "joint-sketch-ridge,class-mean"])
def both(request: pytest.FixtureRequest, place: Path) -> tuple[Path, Path]:
    """A folder of the simulated run, and one of the model that files made."""
    kind = request.param.partition(",")[0]
    here = place / kind
    here.mkdir()
    (here / "x.yaml").write_text(PRESET.replace("FUSION", request.param))
    shutil.copytree(place / "sites", here / "apart")
    told(here, "task", "new", "x.yaml", "../classes.txt", "-o", "task.safetensors", "--grey")
    common = {name: ["--data", f"apart/{name}", "--name", name] for name in SITES}
    trained = [
        ["site", "train", "task.safetensors", *common[name], "-o", f"{name}.upload", "--encoder", own]
        for name, own in ENCODERS.items()
    ]
    together(here, *([*words, *ALIKE] for words in trained))
    files = [f"{name}.upload" for name in SITES]
    if kind.startswith("joint"):
        told(here, "server", "describe", "task.safetensors", *files, "-o", "request.safetensors")
        for name in SITES:
            words = ("site", "describe", "task.safetensors", "request.safetensors", *common[name])
            told(here, *words, "-o", f"{name}.answer", "--device", "cpu")
        files += [f"{name}.answer" for name in SITES]
    told(here, "server", "fuse", "task.safetensors", *files, "-o", "model")
    told(here, "export", "model", "model.safetensors")
    for name in SITES:
        told(here, "site", "evaluate", "model.safetensors", *common[name], "-o", f"{name}.score")
    told(here, "server", "scores", "model", *(f"{name}.score" for name in SITES))
    settings = read_preset(here / "x.yaml")
    method = str(settings.pop("method"))
    words = {"data.root": str(place / "sites"), "threads": 1, "device": "cpu"}
    Experiment(method, **settings, **words, out=here / "simulated").run()
    return here / "simulated", here / "model"


def raw_lambdas(run: Run) -> dict[int, list[object]]:
    return {client: [record["lambda_raw"] for record in own] for client, own in run.clients.items()}


def test_accuracy_and_every_lambda_are_those_of_the_simulation(both: tuple[Path, Path]) -> None:
    simulated, by_files = (read_run(folder) for folder in both)
    fusion = next(iter(simulated.config.fusion))
    assert by_files.summary.sites == simulated.summary.sites == sorted(SITES)
    assert by_files.summary.final_accuracy[fusion] == simulated.summary.final_accuracy[fusion]
    assert by_files.summary.confusion[fusion] == simulated.summary.confusion[fusion]
    assert by_files.summary.label_table == simulated.summary.label_table
    assert raw_lambdas(by_files) == raw_lambdas(simulated)
    assert len(raw_lambdas(simulated)) == 3
    images = [json.loads((both[1].parent / f"{name}.score").read_text()) for name in sorted(SITES)]
    shares = [np.trace(each["confusion"]) / np.sum(each["confusion"]) for each in images]
    assert by_files.summary.site_accuracy == pytest.approx(shares)
    assert simulated.summary.final_accuracy[fusion] > 0.5


def test_the_model_predicts_exports_and_has_a_page(both: tuple[Path, Path], tmp_path: Path) -> None:
    model = both[1]
    assert (model / "report.html").is_file()
    picture = next((model.parent / "apart" / "west").glob("*/*.png"))
    assert "digit" in told(tmp_path, "predict", str(model), str(picture))
    told(tmp_path, "export", str(model), "model.safetensors")


@pytest.mark.parametrize("fusion", [name for name in FUSIONS.names() if name != "zscore-batch"])
def test_the_manifest_is_the_upload_to_the_byte(fusion: str, tmp_path: Path) -> None:
    result = Experiment("v7", fusion=fusion, train={"rounds": 1}, out=tmp_path / "run").run()
    for number in range(5):
        file = result.run.files.upload(number)
        content, tensors = unpack("upload", file.read_bytes())
        upload = Upload.from_bytes(file.read_bytes())
        parts = manifest(upload, content, tensors, file.stat().st_size)
        assert sum(part.bytes for part in parts) == file.stat().st_size
        size = file.stat().st_size - sum(value.nbytes for value in tensors.values())
        assert next(part.bytes for part in parts if part.name == "header") == size
        named = {part.name for part in parts}
        assert named >= {f"weights/{name}" for name in upload.trained}
        assert named >= {f"statistics/{name}" for name in upload.statistics}
        assert all(part.is_what and "unknown" not in part.is_what for part in parts)
        secret = {"secret": tensors["class_counts"].clone()}
        shown = command("inspect", str(file), "--json", cwd=tmp_path)
        assert len(json.loads(shown.stdout)) == len(parts)
        stray = pack("upload", {**content, "note": "x"}, {**tensors, **secret})
        (tmp_path / "stray.upload").write_bytes(stray)
        shown = command("inspect", "stray.upload", "--json", cwd=tmp_path)
        found = json.loads(shown.stdout)
        assert {part["name"] for part in found if "unknown" in part["is_what"]} == {"secret", "unknown"}
        assert sum(part["bytes"] for part in found) == len(stray)


def test_wrong_tasks_changed_bytes_and_second_uploads_are_refused(
    both: tuple[Path, Path], tmp_path: Path
) -> None:
    here = both[1].parent
    if here.name != "sketch-guided":
        pytest.skip("one of them is enough")
    data = bytearray((here / "north.upload").read_bytes())
    data[-5] ^= 1
    (tmp_path / "bent.upload").write_bytes(bytes(data))
    (tmp_path / "again.upload").write_bytes((here / "north.upload").read_bytes())
    other = replace(Upload.from_bytes((here / "south.upload").read_bytes()), site="west")
    (tmp_path / "other.upload").write_bytes(other.to_bytes())
    done = command(
        *("server", "fuse", str(here / "task.safetensors"), str(here / "south.upload")),
        *(str(here / "north.upload"), "again.upload", "bent.upload"),
        *(str(here / "west.upload"), "other.upload", "-o", "model"),
        cwd=tmp_path,
    )
    assert done.returncode == 1
    assert "refused: bent.upload: this upload is damaged" in done.stdout
    assert "refused: again.upload: is the upload of north that north.upload is" in done.stdout
    both_west = "west.upload and other.upload: both say that they are of west, and neither is believed"
    assert both_west in done.stdout
    assert read_run(tmp_path / "model").summary.sites == ["north", "south"]
    words = ("task", "new", str(here / "x.yaml"), str(here.parent / "classes.txt"), "--grey")
    told(tmp_path, *words, "-o", "other.safetensors", "--set", "seed=4")
    done = command(
        *("server", "fuse", "other.safetensors", str(here / "south.upload"), "-o", "m"), cwd=tmp_path
    )
    assert done.returncode == 2
    assert "answers another task" in done.stderr


def test_an_answer_to_another_request_is_refused(both: tuple[Path, Path], tmp_path: Path) -> None:
    here = both[1].parent
    if not here.name.startswith("joint"):
        pytest.skip("there is no second exchange")
    files = [
        str(here / f"{name}.{kind}") for name in ("south", "west") for kind in ("upload", "answer")
    ]
    done = command("server", "fuse", str(here / "task.safetensors"), *files, "-o", "m", cwd=tmp_path)
    assert done.returncode == 2
    assert "is to another request than that of south, west" in done.stderr
    assert not (tmp_path / "m").exists()


def test_a_refused_upload_is_the_first_thing_that_is_said(
    both: tuple[Path, Path], tmp_path: Path
) -> None:
    """Also where answers to a second exchange no longer fit, or are not there."""
    here = both[1].parent
    upload = Upload.from_bytes((here / "south.upload").read_bytes())
    spoiled = {name: value.clone() for name, value in upload.trained.items()}
    spoiled["prototypes"][0, 0] = float("nan")
    (tmp_path / "sent.upload").write_bytes(replace(upload, trained=spoiled).to_bytes())
    others = [str(here / f"{name}.upload") for name in ("north", "west")]
    answers = [str(here / f"{name}.answer") for name in SITES] if here.name.startswith("joint") else []
    why = "sent.upload: the upload of south: prototypes has values that are not finite"
    words = ("server", "fuse", str(here / "task.safetensors"), "sent.upload")
    for number, files in enumerate([[*others, *answers], others]):
        done = command(*words, *files, "-o", f"model-{number}", cwd=tmp_path)
        if answers:
            assert (done.returncode, done.stderr.count("\n")) == (2, 1)
            assert done.stderr.startswith(f"error: {why}; ")
        else:
            assert done.returncode == 1
            assert f"refused: {why}" in done.stdout
            assert read_run(tmp_path / f"model-{number}").summary.sites == ["north", "west"]
    alone = command(*words, "-o", "none", cwd=tmp_path)
    assert (alone.returncode, alone.stderr.count("\n")) == (2, 1)
    assert alone.stderr.startswith(f"error: {why}; 0 of 1 uploads")
    assert not (tmp_path / "none").exists()


def test_a_refused_answer_is_the_first_thing_that_is_said(
    both: tuple[Path, Path], tmp_path: Path
) -> None:
    here = both[1].parent
    if not here.name.startswith("joint"):
        pytest.skip("there is no second exchange")
    data = bytearray((here / "west.answer").read_bytes())
    data[-5] ^= 1
    (tmp_path / "bent.answer").write_bytes(bytes(data))
    files = [str(here / f"{name}.upload") for name in SITES]
    files += [str(here / f"{name}.answer") for name in ("north", "south")]
    words = ("server", "fuse", str(here / "task.safetensors"), *files)
    bent = command(*words, "bent.answer", "-o", "m", cwd=tmp_path)
    assert (bent.returncode, bent.stderr.count("\n")) == (2, 1)
    assert bent.stderr.startswith("error: bent.answer: this description is damaged")
    assert "west has not answered the second exchange" in bent.stderr
    missing = command(*words, "-o", "m", cwd=tmp_path)
    assert missing.stderr == "error: west has not answered the second exchange\n"
    assert not (tmp_path / "m").exists()


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"confusion": [[1e308] * 10] * 10}, "counts that cannot be"),
        ({"confusion": [[0] * 10] * 10}, "counts that cannot be"),
        ({"confusion": [[10**18] * 10] * 10}, "counts that cannot be"),
        ({"confusion": [[1] * 3] * 3}, "other classes"),
        ({"site": "a\nb"}, "printable"),
        ({"classes": 7}, "no score"),
        ({"fusion": "iffi"}, "is of fusion iffi"),
        ({"model": None}, "is of another model; south must measure this one"),
        ({"site": "east"}, "is of east, which is none of the model's north, south, west"),
    ],
)
def test_a_score_that_cannot_be_is_one_line(
    change: dict[str, object], why: str, both: tuple[Path, Path], tmp_path: Path
) -> None:
    content = json.loads((both[1].parent / "south.score").read_text())
    (tmp_path / "x.score").write_text(json.dumps({**content, **change}))
    done = command("server", "scores", str(both[1]), "x.score", cwd=tmp_path)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert why in done.stderr


@pytest.mark.parametrize(
    "change",
    [{"round": None}, {"readings": {"x": 10**400}}, {"readings": {"event": 1.0}}, {"client": 0.5}],
)
def test_telemetry_that_cannot_be_is_refused_with_its_upload(
    change: dict[str, object], both: tuple[Path, Path], tmp_path: Path
) -> None:
    here = both[1].parent
    if here.name != "sketch-guided":
        pytest.skip("one of them is enough")
    content, tensors = unpack("upload", (here / "west.upload").read_bytes())
    content["telemetry"] = [{**record, **change} for record in content["telemetry"]]
    (tmp_path / "west.upload").write_bytes(pack("upload", content, tensors))
    words = ("server", "fuse", str(here / "task.safetensors"), str(here / "south.upload"))
    assert "refused: west.upload" in told(tmp_path, *words, "west.upload", "-o", "m", ends=1)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["method=fedavg"], "has many rounds"),
        (["method=v6", "partition.public=0.1"], "needs public images"),
        (["fusion=zscore-batch"], "makes no model"),
        (["data.name=digits"], "for images of your own"),
    ],
)
def test_what_files_cannot_do_is_refused_when_the_task_is_made(
    words: list[str], why: str, place: Path, tmp_path: Path
) -> None:
    (tmp_path / "x.yaml").write_text("method: v4\ndata: {name: sites, size: 8}\n")
    given = [word for each in words for word in ("--set", each)]
    classes = str(place / "classes.txt")
    done = command("task", "new", "x.yaml", classes, "-o", "task.safetensors", *given, cwd=tmp_path)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert why in done.stderr
    assert not (tmp_path / "task.safetensors").exists()


def test_a_task_decides_nothing_that_is_a_sites_own(both: tuple[Path, Path]) -> None:
    content, tensors = unpack("task", (both[1].parent / "task.safetensors").read_bytes())
    assert not {"track", "out", "data.root"} & content["settings"].keys()
    content["settings"] |= {"track": "tensorboard", "out": "/elsewhere", "data.root": "/elsewhere"}
    config = Setup.of(Task.from_bytes(pack("task", content, tensors))).config
    assert config.general.track is None
    assert config.general.out is None
    assert config.data.root == "data"


def test_a_model_is_measured_on_what_was_held_out_and_on_nothing_else(
    both: tuple[Path, Path], tmp_path: Path
) -> None:
    words = ("--data", str(both[1].parent / "apart" / "west"), "--name", "west", "-o", "w.score")
    told(tmp_path, "site", "evaluate", str(both[1]), *words)
    score = json.loads((tmp_path / "w.score").read_text())
    assert score == json.loads((both[1].parent / "west.score").read_text())
    confusion = score["confusion"]
    trained = read_run(both[1]).summary.label_table[2]
    pictures = [len(list((both[1].parent / "apart" / "west").glob(f"digit {n}/*"))) for n in range(10)]
    assert [sum(row) for row in confusion] == [a - b for a, b in zip(pictures, trained, strict=True)]


def test_another_share_than_the_models_is_refused(both: tuple[Path, Path], tmp_path: Path) -> None:
    here = both[1].parent
    words = ("--data", "apart/west", "--name", "west", "-o", str(tmp_path / "west.score"))
    refused = command("site", "evaluate", "model.safetensors", *words, "--holdout", "0.9", cwd=here)
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    assert "was trained on all but 0.2 of every site's images" in refused.stderr
    told(here, "site", "evaluate", "model.safetensors", *words, "--holdout", "0.2")
    less = command("site", "check", "task.safetensors", *words[:2], "--holdout", "0.1", cwd=here)
    assert (less.returncode, less.stderr.count("\n")) == (2, 1)
    assert "keep as many or more" in less.stderr


def test_a_model_that_does_not_say_what_was_held_out_needs_the_share(
    both: tuple[Path, Path], tmp_path: Path
) -> None:
    content, tensors = unpack("model", (both[1].parent / "model.safetensors").read_bytes())
    content["card"]["holdout"] = None
    (tmp_path / "other.safetensors").write_bytes(pack("model", content, tensors))
    west = str(both[1].parent / "apart" / "west")
    words = ("other.safetensors", "--data", west, "--name", "west", "-o", "west.score")
    done = command("site", "evaluate", *words, cwd=tmp_path)
    assert done.returncode == 2
    assert "does not say what was held out; add --holdout" in done.stderr
    told(tmp_path, "site", "evaluate", *words, "--holdout", "0.2")


def test_a_score_of_a_model_without_one_of_the_sites_is_refused(
    both: tuple[Path, Path], tmp_path: Path
) -> None:
    here = both[1].parent
    if here.name != "sketch-guided":
        pytest.skip("one of them is enough")
    files = [str(here / f"{name}.upload") for name in SITES]
    words = ("server", "fuse", str(here / "task.safetensors"), *files)
    told(tmp_path, *words, "-o", "fewer", "--without", "north")
    refused = command("server", "scores", "fewer", str(here / "west.score"), cwd=tmp_path)
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    assert "is of another model" in refused.stderr


def test_scores_of_some_sites_are_not_taken_for_those_of_all(
    both: tuple[Path, Path], tmp_path: Path
) -> None:
    here = both[1].parent
    if here.name != "sketch-guided":
        pytest.skip("one of them is enough")
    fewer = command("server", "scores", str(both[1]), str(here / "west.score"), cwd=tmp_path)
    assert (fewer.returncode, fewer.stderr.count("\n")) == (2, 1)
    assert "holds scores of north, south too; name the files of all at once" in fewer.stderr
    shutil.copytree(both[1], tmp_path / "model")
    summary = tmp_path / "model" / "summary.json"
    summary.write_text(json.dumps(json.loads(summary.read_text()) | {"site_accuracy": None}))
    told_of = told(tmp_path, "server", "scores", "model", str(here / "west.score"))
    assert "1 of 3 sites" in told_of
    assert "not measured at north, south" in told_of
    assert "no held-out image of" in told_of


@pytest.fixture
def torn(both: tuple[Path, Path], tmp_path: Path) -> list[Path]:
    """south's folder in tmp_path, with files that are no images: text, half a picture, nothing."""
    folder = tmp_path / "south"
    shutil.copytree(both[1].parent / "apart" / "south", folder)
    whole = next((folder / "digit 4").iterdir()).read_bytes()
    bad = [folder / "digit 4" / "half.png", folder / "digit 5" / "none.png"]
    for file, data in zip(bad, (whole[: len(whole) // 2], b""), strict=True):
        file.write_bytes(data)
    for number in range(10):
        bad.append(folder / "digit 6" / f"text{number}.png")
        bad[-1].write_text(f"no picture {number}")
    return bad


def test_a_check_lists_every_file_that_is_no_image(
    both: tuple[Path, Path], torn: list[Path], tmp_path: Path
) -> None:
    words = (
        "site",
        "check",
        str(both[1].parent / "task.safetensors"),
        "--data",
        str(torn[0].parents[1]),
    )
    output = told(tmp_path, *words, ends=1)
    listed = [line for line in output.splitlines() if line.startswith("bad: ")]
    assert sorted(listed) == sorted(f"bad: {file}: truncated, corrupt or not an image" for file in torn)
    assert f"cannot be read: {len(torn)} files; site train --skip-bad leaves them out" in output
    assert "training: about" in output
    for file in torn:
        file.unlink()
    assert "bad" not in told(tmp_path, *words)


def test_files_that_are_no_images_stop_a_site_until_it_leaves_them_out(
    both: tuple[Path, Path], torn: list[Path], tmp_path: Path
) -> None:
    here, own = both[1].parent, ("--data", str(torn[0].parents[1]), "--name", "south")
    task = str(here / "task.safetensors")
    request = here / "request.safetensors"
    commands = {
        "south.upload": ("train", task, *own, "--threads", "1", "--device", "cpu"),
        "south.score": ("evaluate", str(here / "model.safetensors"), *own),
    }
    if request.is_file():
        commands["south.answer"] = ("describe", task, str(request), *own, "--device", "cpu")
    for name, words in commands.items():
        done = command("site", *words, "-o", name, cwd=tmp_path)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)
        assert sum(f"error: {file}: truncated" in done.stderr for file in torn) == 1
        assert f", and {len(torn) - 1} more; anchorfl site check lists all" in done.stderr
        assert "--skip-bad" in done.stderr
        assert not (tmp_path / name).exists()
        output = told(tmp_path, "site", *words, "-o", name, "--skip-bad")
        assert f"left out, cannot be read: {len(torn)} files" in output
    uploads = [Upload.from_bytes((at / "south.upload").read_bytes()) for at in (here, tmp_path)]
    assert replace(uploads[0], telemetry=()).to_bytes() == uploads[1].to_bytes()
    for name in {*commands} - {"south.upload"}:
        assert (tmp_path / name).read_bytes() == (here / name).read_bytes()


def test_only_what_the_allowed_signers_signed_is_fused(both: tuple[Path, Path], tmp_path: Path) -> None:
    here = both[1].parent
    if here.name != "sketch-guided" or shutil.which("ssh-keygen") is None:
        pytest.skip("one of them is enough, where OpenSSH is")
    for name in ("north", "stranger"):
        words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / name)]
        subprocess.run(words, check=True)
    public = (tmp_path / "north.pub").read_text()
    (tmp_path / "allowed").write_text(f"north {public}south {public}")
    from anchorfl.messages import sign

    for name, key in (("north", "north"), ("south", "stranger"), ("west", None)):
        shutil.copy(here / f"{name}.upload", tmp_path)
        if key is not None:
            sign(tmp_path / f"{name}.upload", tmp_path / key)
    told_of = told(
        tmp_path,
        *("server", "fuse", str(here / "task.safetensors"), "north.upload", "south.upload"),
        *("west.upload", "-o", "model", "--allowed-signers", "allowed"),
        ends=1,
    )
    assert read_run(tmp_path / "model").summary.sites == ["north"]
    assert "refused: south.upload: its signature is not south's" in told_of
    assert "refused: west.upload: is not signed" in told_of
    assert "2 files were refused" in told(tmp_path, "diagnose", "model")


def test_a_finished_training_is_sent_again_and_not_repeated(
    both: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, out = both[1].parent, tmp_path / "north.upload"
    shutil.copytree(here / "north.upload.training", tmp_path / "north.upload.training")
    own = ("--data", str(here / "apart" / "north"), "--name", "north", "-o", str(out))
    words = ("site", "train", str(here / "task.safetensors"), *own, *ALIKE)

    def trained(*given: object) -> None:
        raise AssertionError("it trains")

    monkeypatch.setattr(site_training, "record", trained)
    monkeypatch.setattr(Trainer, "step", trained)
    before = (here / "north.upload").read_bytes()
    for _ in range(2):
        told(tmp_path, *words)
        assert out.read_bytes() == before
    out.unlink()
    told(tmp_path, *words)
    assert out.read_bytes() == before
    whole = Upload.from_bytes(before)
    assert len(whole.telemetry) == 2
    told(tmp_path, *words, "--counts", "large")
    large = Upload.from_bytes(out.read_bytes())
    assert 0 < whole.class_counts[9] <= 3
    assert large.class_counts.tolist() == [*whole.class_counts.tolist()[:9], 0]
    assert replace(large, class_counts=whole.class_counts).to_bytes() == before
    told(tmp_path, *(word for word in words if word != "--telemetry"))
    assert out.read_bytes() == replace(whole, telemetry=()).to_bytes()


def test_a_training_whose_upload_was_damaged_says_what_to_do(
    both: tuple[Path, Path], tmp_path: Path
) -> None:
    here, folder = both[1].parent, tmp_path / "north.upload.training"
    shutil.copytree(here / "north.upload.training", folder)
    own = ("--data", str(here / "apart" / "north"), "--name", "north", "-o", "north.upload")
    words = ("site", "train", str(here / "task.safetensors"), *own, *ALIKE)
    kept = folder / "uploads" / "client-000.safetensors"
    data = bytearray(kept.read_bytes())
    data[-5] ^= 1
    for content, why in ((bytes(data), "is damaged"), (b"", "missing or incomplete")):
        kept.write_bytes(content)
        done = command(*words, cwd=tmp_path)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)
        assert why in done.stderr
        assert "remove it and train again" in done.stderr


def test_everything_but_fuse_works_without_the_uploads(both: tuple[Path, Path], tmp_path: Path) -> None:
    here, model = both[1].parent, tmp_path / "model"
    shutil.copytree(both[1], model)
    shutil.rmtree(model / "uploads")
    for name in SITES:
        own = ("--data", str(here / "apart" / name), "--name", name, "-o", f"{name}.score")
        told(tmp_path, "site", "evaluate", "model", *own)
        assert (tmp_path / f"{name}.score").read_bytes() == (here / f"{name}.score").read_bytes()
    summary = json.loads((model / "summary.json").read_text())
    emptied = {**summary, "final_accuracy": None, "site_accuracy": None}
    (model / "summary.json").write_text(json.dumps(emptied))
    told(tmp_path, "server", "scores", "model", *(f"{name}.score" for name in SITES))
    again = json.loads((model / "summary.json").read_text())
    assert again["final_accuracy"] == summary["final_accuracy"]
    assert again["site_accuracy"] == summary["site_accuracy"]
    west = here / "apart" / "west"
    assert "digit" in told(tmp_path, "predict", "model", str(next(west.glob("*/*.png"))))
    told(tmp_path, "evaluate", "model", "--data", str(west))
    told(tmp_path, "export", "model", "out.safetensors")
    images = torch.rand(3, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    first, second = (
        FusedModel.load(at) for at in (tmp_path / "out.safetensors", here / "model.safetensors")
    )
    assert torch.equal(first(images), second(images))
    told(tmp_path, "report", "model")
    told(tmp_path, "diagnose", "model")
    refused = command("fuse", "model", cwd=tmp_path)
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    assert "client-000.safetensors: missing or incomplete" in refused.stderr


def test_a_folder_of_real_sites_is_fused_again_where_no_data_are(
    both: tuple[Path, Path], tmp_path: Path
) -> None:
    here = both[1].parent
    told(tmp_path, "fuse", str(both[1]), "device=cpu", "--export", "same.safetensors")
    images = torch.rand(16, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    whole, same = (
        FusedModel.load(at) for at in (both[1] / "model.safetensors", tmp_path / "same.safetensors")
    )
    assert torch.equal(same(images), whole(images))
    assert same.card == whole.card
    files = [str(here / f"{name}.upload") for name in SITES]
    if here.name.startswith("joint"):
        late = command(
            "fuse", str(both[1]), "--add", files[0], "--export", "y.safetensors", cwd=tmp_path
        )
        assert (late.returncode, late.stderr.count("\n")) == (2, 1)
        assert f"--add {files[0]}: this site has uploaded already" in late.stderr
        return
    words = ("server", "fuse", str(here / "task.safetensors"), *files[:2])
    told(tmp_path, *words, "-o", "fewer")
    assert read_run(tmp_path / "fewer").summary.sites == ["north", "south"]
    output = told(
        tmp_path, "fuse", "fewer", "device=cpu", "--add", files[2], "--export", "y.safetensors"
    )
    assert "model: y.safetensors" in output
    added = FusedModel.load(tmp_path / "y.safetensors")
    assert added.card == whole.card
    torch.testing.assert_close(added(images), whole(images))
    fewer = FusedModel.load(tmp_path / "fewer" / "model.safetensors")
    assert not torch.allclose(fewer(images), whole(images))
    own = ("--data", str(here / "apart" / "west"), "--name", "west", "-o", "west.score")
    told(tmp_path, "site", "evaluate", "y.safetensors", *own)
    assert (tmp_path / "west.score").is_file()


def test_a_model_that_is_fused_again_still_says_what_was_held_out(place: Path, tmp_path: Path) -> None:
    """Whatever the task calls its images."""
    (tmp_path / "x.yaml").write_text(
        "method: v4\ndata: {name: folder, size: 8, flip: false, holdout: 0.3}\n"
        "model: {name: small-cnn}\ntrain: {rounds: 1, batch_size: 64}\nfusion: class-mean\n"
    )
    told(tmp_path, "task", "new", "x.yaml", str(place / "classes.txt"), "-o", "t.safetensors", "--grey")
    for name in ("north", "south"):
        own = ("--data", str(place / "sites" / name), "--name", name, "-o", f"{name}.upload")
        told(tmp_path, "site", "train", "t.safetensors", *own, "--device", "cpu")
    told(tmp_path, "server", "fuse", "t.safetensors", "north.upload", "south.upload", "-o", "model")
    told(tmp_path, "fuse", "model", "--export", "again.safetensors")
    for file in ("model/model.safetensors", "again.safetensors"):
        assert FusedModel.load(tmp_path / file).card.holdout == 0.3


@pytest.mark.parametrize("again", [False, True])
def test_a_process_parses_each_upload_once(
    both: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, again: bool
) -> None:
    here, parsed = both[1].parent, []
    files = [str(file) for file in sorted(here.glob("*.upload"))]
    answers = [str(file) for file in sorted(here.glob("*.answer"))]
    made_of = Upload.made_of

    def counted(content: dict[str, Any], tensors: dict[str, torch.Tensor]) -> Upload:
        parsed.append(content["site"])
        return made_of(content, tensors)

    monkeypatch.setattr(Upload, "made_of", staticmethod(counted))
    if again:
        told(tmp_path, "fuse", str(both[1]), "--export", "x.safetensors")
    else:
        words = ("server", "fuse", str(here / "task.safetensors"), *files, *answers)
        told(tmp_path, *words, "-o", "model")
    assert parsed == sorted(SITES)


CODE = """
from torch import nn

def wide(shape):
    return nn.Sequential(nn.Flatten(), nn.Linear(shape[0] * shape[1] * shape[2], 40), nn.ReLU())
"""


def test_a_model_of_a_sites_own_code_is_measured_at_a_site(place: Path, tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(CODE)
    (tmp_path / "x.yaml").write_text(
        "method: v4\ndata: {name: sites, size: 8, flip: false}\nmodel: {name: 'own.py:wide'}\n"
        "train: {rounds: 1, batch_size: 64}\nfusion: class-mean\n"
    )
    code = ("--model", "own.py:wide")
    told(tmp_path, "task", "new", "x.yaml", str(place / "classes.txt"), "-o", "t.safetensors", "--grey")
    common = {
        name: ("--data", str(place / "sites" / name), "--name", name) for name in ("north", "south")
    }
    with own_code_forgotten():
        for name, own in common.items():
            words = ("site", "train", "t.safetensors", *own, "-o", f"{name}.upload", "--device", "cpu")
            told(tmp_path, *words, *code)
    files = [f"{name}.upload" for name in common]
    told(tmp_path, "server", "fuse", "t.safetensors", *files, "-o", "model", *code)
    for model in ("model", "model/model.safetensors"):
        words = ("site", "evaluate", model, *common["north"], "-o", "north.score")
        with own_code_forgotten():
            refused = command(*words, cwd=tmp_path)
            assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
            assert "its encoder is code:wide, code that no file brings along" in refused.stderr
            assert "add --model FILE.py:NAME" in refused.stderr
            told(tmp_path, *words, *code)
        score = json.loads((tmp_path / "north.score").read_text())
        assert np.trace(score["confusion"]) > 0.3 * np.sum(score["confusion"])
    told(tmp_path, "server", "scores", "model", "north.score", *code)
    assert list(read_run(tmp_path / "model").summary.final_accuracy or {}) == ["class-mean"]


def test_what_a_site_may_not_send_and_what_it_may_leave_out(both: tuple[Path, Path]) -> None:
    here = both[1].parent
    done = command(*("site", "check", "task.safetensors", "--data", "apart"), cwd=here)
    assert done.returncode == 2
    assert "unknown to the task: north, south, west (the task's classes: digit 0" in done.stderr
    words = ("site", "train", "task.safetensors", "--data", "apart/north", "--name", "north")
    told(here, *words, "-o", "north.upload", "--threads", "1", "--device", "cpu", "--counts", "large")
    upload = Upload.from_bytes((here / "north.upload").read_bytes())
    assert upload.telemetry == ()
    simulated = read_run(both[0]).summary.label_table[0]
    assert 0 < simulated[9] <= 3
    assert upload.class_counts.tolist() == [*simulated[:9], 0]
    another = ("--data", "apart/south", "--name", "south", "-o", "north.upload")
    refused = command("site", "train", "task.safetensors", *another, "--threads", "1", cwd=here)
    assert refused.returncode == 2
    assert "holds another training" in refused.stderr
    plain = command("run", "v4", "data.name=folder", "data.root=apart", "out=run", cwd=here)
    assert plain.returncode == 2
    assert "use data.name=sites" in plain.stderr
