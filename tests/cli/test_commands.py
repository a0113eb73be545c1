"""The real command, in a process of its own."""

import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from anchorfl.settings import read_preset, resolve
from tests.conftest import process as command
from tests.conftest import write_cifar10, write_svhn


def test_a_run_prints_rounds_a_table_and_where_things_are(tmp_path: Path) -> None:
    done = command("run", "v4", "train.rounds=2", "fusion=feature-mean,softmax-mean", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for words in ("round 1 (2/2)", "samples/s", "best single client", "accuracy.png"):
        assert words in done.stdout
    (folder,) = (tmp_path / "runs").iterdir()
    summary = json.loads((folder / "summary.json").read_text())
    for name, value in summary["final_accuracy"].items():
        assert f"{name} {100 * value:.1f} %" in done.stdout
    for picture in ("accuracy.png", "partition.png"):
        assert (folder / "figures" / picture).read_bytes().startswith(b"\x89PNG")


def test_a_preset_can_be_run_and_a_finished_run_repeated(tmp_path: Path) -> None:
    (tmp_path / "own.yaml").write_text("method: v7\ntrain: {rounds: 1}\nalign: {lambda: 2}\nseed: 3\n")
    assert command("run", "own.yaml", "out=first", cwd=tmp_path).returncode == 0
    assert command("run", "first/config.yaml", "out=second", cwd=tmp_path).returncode == 0
    metrics = [
        json.loads((tmp_path / name / "metrics.jsonl").read_text().splitlines()[0])
        for name in ("first", "second")
    ]
    assert metrics[0]["lambda_effective"] == 2
    assert metrics[0]["base_loss"] == metrics[1]["base_loss"]


def test_a_resnet_runs_on_official_cifar10_files(tmp_path: Path) -> None:
    write_cifar10(tmp_path / "data")
    done = command(
        "run",
        "v4",
        "data.name=cifar10",
        "train.rounds=1",
        "partition.clients=2",
        "fusion=feature-mean",
        "device=cpu",
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr


def test_methods_and_data_are_listed(tmp_path: Path) -> None:
    methods = command("methods", cwd=tmp_path).stdout
    assert "v4" in methods
    assert "FAFI baseline" in methods
    one = command("methods", "v7", cwd=tmp_path).stdout
    assert "align.lambda=5.0" in one
    assert "V7, diary 001 and 000" in one
    assert "parameter-mean" in command("methods", "--fusions", cwd=tmp_path).stdout
    listed = command("data", "list", cwd=tmp_path).stdout
    for name in [
        "digits",
        "cifar10",
        "cifar100",
        "svhn",
        "mnist",
        "fashion-mnist",
        "tiny-imagenet",
        "folder",
    ]:
        assert name in listed


def test_data_show_prints_saves_and_draws_the_partition(tmp_path: Path) -> None:
    words = ("digits", "partition.kind=shards", "partition.labels=2", "--save", "p.json")
    done = command("data", "show", *words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "2.00" in done.stdout
    assert (tmp_path / "partition-digits.png").is_file()
    words = ("v4", "train.rounds=1", "partition.kind=file", "partition.file=p.json", "out=run")
    assert command("run", *words, cwd=tmp_path).returncode == 0
    saved, used = (json.loads((tmp_path / p).read_text()) for p in ("p.json", "run/partition.json"))
    assert saved == used


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("run",),
        ("methods",),
        ("demo",),
        ("data",),
        ("data", "list"),
        ("data", "fetch"),
        ("data", "show"),
    ],
)
def test_help_everywhere_comes_with_an_example(tmp_path: Path, words: tuple[str, ...]) -> None:
    done = command(*words, "--help", cwd=tmp_path)
    assert done.returncode == 0
    assert "Example" in done.stdout
    assert "anchorfl " + " ".join(words) in done.stdout


def test_presets_named_in_the_help_exist(tmp_path: Path) -> None:
    shown = command("run", "--help", cwd=tmp_path).stdout
    presets = re.findall(r"presets/\S+\.yaml", shown)
    assert presets
    root = Path(__file__).parents[2]
    assert all((root / preset).is_file() for preset in presets)


@pytest.mark.parametrize("preset", ["v4-digits.yaml", "v4-cifar10.yaml"])
def test_presets_are_valid(preset: str) -> None:
    settings = read_preset(Path(__file__).parents[2] / "presets" / preset)
    resolve(str(settings.pop("method")), settings)


def test_fetch_prints_the_terms_before_anything_else(tmp_path: Path) -> None:
    done = command("data", "fetch", "digits", cwd=tmp_path)
    assert done.returncode == 2
    assert "CC BY 4.0" in done.stdout
    assert "nothing to fetch" in done.stderr


def test_places_that_cannot_be_written_are_one_line(tmp_path: Path) -> None:
    for words, message in [
        (("--save", "/nonexistent/p.json"), "/nonexistent/p.json: No such file"),
        (("--figure", "x.abc"), "x.abc: a figure's name must end in .png"),
    ]:
        done = command("data", "show", "digits", *words, cwd=tmp_path)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)
        assert message in done.stderr


def test_the_help_of_run_names_every_key(tmp_path: Path) -> None:
    shown = command("run", "--help", cwd=tmp_path).stdout
    for key in ("data.validation", "partition.seed", "train.reset_optimizer", "fusion", "seed", "out"):
        assert f"  {key} " in shown


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["run", "v44"], "did you mean v4"),
        (["run", "v4", "data.name=cifar"], "did you mean cifar"),
        (["run", "v4", "train.epochs=3"], "unknown key"),
        (["run", "v4", "fusion=mean"], "fusion=mean: unknown fusion"),
        (["run", "v4", "train.rounds=x"], "train.rounds=x: must be a whole number"),
        (["run", "v4", "partition.alpha=0"], "partition.alpha=0: must be a finite number above 0"),
        (["run", "v4", "partition.clients=0"], "partition.clients=0"),
        (["run", "v4", "partition.clients=5000"], "must be at most 1442"),
        (["run", "v4", "partition.kind=file"], "partition.file=PATH"),
        (["run", "v4", "device=cuda:99"], "device=cuda:99"),
        (["run", "v4", "device=toaster"], "device=toaster: must be auto"),
        (["run", "v4", "model.name=none.py:X"], "none.py:X: no such file"),
        (["run", "v4", "data.name=svhn"], "anchorfl data fetch svhn"),
        (["run", "none.yaml"], "No such file"),
        (["methods", "v99"], "unknown method 'v99'"),
        (["data", "fetch", "imagenet"], "did you mean tiny-imagenet"),
        (["data", "show", "digits", "alpha=1"], "unknown key"),
        (["runn"], "No such command 'runn'"),
        (["run", "v4", "--rounds", "2"], "settings are words, such as train.rounds=3"),
        (["run", "v4", "method=v12"], "method=v12: goes with a preset"),
        (["run", "v4", "fusion.class-mean=3"], "write fusion.class-mean.OPTION=VALUE"),
        (["run", "v4", "seed=-1"], "error: seed=-1: must be"),
        (["run", "v4", "data.root=shapes"], "data.root: nothing reads it with data.name=digits"),
        (["run", "presets/v4-digits.yaml", "data.size=8"], "data.size: nothing reads it with"),
        (["run", "v4", "fusion.mean-mean.q=2"], "mean-mean is not among fusion=sketch-guided"),
        (["run", "v4", "out=" + "x" * 300], "cannot be made (File name too long)"),
    ],
)
def test_a_mistake_ends_with_code_2_and_one_line(
    tmp_path: Path, words: list[str], message: str
) -> None:
    done = command(*words, cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""
    assert not (tmp_path / "runs").exists()


def test_cuda_without_a_gpu_is_one_line(tmp_path: Path) -> None:
    import torch

    if torch.cuda.is_available():
        assert command("run", "v4", "train.rounds=1", "device=cuda", cwd=tmp_path).returncode == 0
    else:
        done = command("run", "v4", "device=cuda", cwd=tmp_path)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)
        assert "no usable GPU" in done.stderr


def test_a_run_goes_on_when_nobody_reads_what_it_prints(tmp_path: Path) -> None:
    line = f"{sys.executable} -m anchorfl run v4 train.rounds=2 out=run | head -1"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", line], cwd=tmp_path, capture_output=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "run/summary.json").read_text())["status"] == "finished"


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_stopped_run_says_so_and_keeps_whole_rounds(sent: signal.Signals, tmp_path: Path) -> None:
    words = [sys.executable, "-m", "anchorfl", "run", "v4", "train.rounds=5000", "out=run"]
    process = subprocess.Popen(
        words, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    for line in process.stdout:
        if "round 1 " in line:
            break
    process.send_signal(sent)
    _, error = process.communicate(timeout=60)
    assert (process.returncode, error.count("\n")) == (128 + sent, 1)
    assert error.startswith("stopped")
    assert json.loads((tmp_path / "run/summary.json").read_text())["status"] == "stopped"
    lines = (tmp_path / "run/metrics.jsonl").read_text().splitlines()
    assert json.loads(lines[-1])["event"] == "round"


def test_a_run_folder_is_not_a_method_but_its_config_is_named(tmp_path: Path) -> None:
    assert command("run", "v4", "train.rounds=1", "out=run", cwd=tmp_path).returncode == 0
    done = command("run", "run", cwd=tmp_path)
    assert done.returncode == 2
    assert "run run/config.yaml" in done.stderr


def test_corrupt_data_and_a_taken_folder_are_one_line(tmp_path: Path) -> None:
    write_svhn(tmp_path / "data")
    file = tmp_path / "data/svhn/train_32x32.mat"
    file.write_bytes(file.read_bytes()[:1000])
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "config.yaml").write_text("")
    (tmp_path / "file").write_text("")
    for words, message in [
        (("data.name=svhn",), "train_32x32.mat: truncated or corrupt"),
        (("out=taken",), "out=taken: holds another run"),
        (("out=file",), "out=file: is a file"),
    ]:
        done = command("run", "v4", *words, cwd=tmp_path)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)
        assert message in done.stderr
