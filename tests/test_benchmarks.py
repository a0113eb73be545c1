"""Every script of benchmarks/ runs on tiny data, and every command of the Makefile is there to run."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
import typer
from benchmarks import pictures, run_pictures
from benchmarks.efficientnet_lite import Lite0
from benchmarks.tables import pages
from benchmarks.tables.deploy import WHERE
from benchmarks.tables.security import FUSIONS, LIES, RULES, by_lie
from rich.console import Console
from safetensors.torch import load_file

from anchorfl.cli.main import app_of
from anchorfl.messages import read_start
from anchorfl.runs import read_run
from tests.conftest import RECORDS, ROOT, command, own_code_forgotten

BENCHMARKS = ROOT / "benchmarks"
IMAGES = ROOT / "docs" / "images"
PNG = b"\x89PNG"
ALONE = {path.stem for path in BENCHMARKS.glob("*.py") if "__main__" in path.read_text()}
"""Scripts that one starts; the other files are imported by them."""
SPELLED = re.compile(r"python (?P<words>-m benchmarks(?:\.\w+)+|benchmarks/\w+\.py)")


def spelled(script: str) -> list[str]:
    """How its own first lines say that it is started."""
    text = (BENCHMARKS / f"{script}.py").read_text()
    found = SPELLED.search(text)
    assert found, f"{script} does not say how it is started"
    assert script in found["words"]
    return found["words"].split()


def printed(script: str, *words: str) -> str:
    """What a script prints that is started as it says, with one thread; it may not fail."""
    done = subprocess.run(
        [sys.executable, *spelled(script), *words],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def lines(script: str, *words: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in printed(script, *words).splitlines()]


def shares(values: dict[str, float]) -> dict[str, float]:
    """Accuracies, as they are; refused where one is none."""
    assert values
    assert all(0 <= value <= 1 for value in values.values()), values
    return values


@pytest.fixture(scope="module", autouse=True)
def nothing_recorded_is_overwritten() -> Iterator[None]:
    def state() -> dict[Path, tuple[int, int]]:
        files = [path for place in (RECORDS, IMAGES) for path in place.rglob("*") if path.is_file()]
        return {path: (path.stat().st_size, path.stat().st_mtime_ns) for path in files}

    before = state()
    yield
    assert state() == before


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two of a round each: one that holds images out, one that does not."""
    folder = tmp_path_factory.mktemp("runs")
    fusions = "fusion=sketch-guided,sketch-lda,class-mean"
    for name, share in (("held-out", 0.2), ("tested", 0.0)):
        words = (fusions, f"data.validation={share}", "train.rounds=1", f"out={name}")
        done = command("run", "v4", *words, cwd=folder)
        assert done.returncode == 0, done.stderr
    return [folder / "held-out", folder / "tested"]


def table_rows(text: str, first: str) -> list[list[str]]:
    """The cells of the lines that begin so; cells stand two spaces apart or more."""
    found = [line.strip() for line in text.splitlines() if line.strip().startswith(first)]
    return [re.split(r"\s{2,}", line) for line in found]


def test_bench_shows_a_ratio_for_every_setting_and_precision() -> None:
    text = printed("speed", "--tiny")
    rows = [*table_rows(text, "digits"), *table_rows(text, "32x32")]
    assert [(row[0].split(",")[0], row[1]) for row in rows] == [
        ("digits", "fp32"),
        ("digits", "bf16"),
        ("32x32 colour", "fp32"),
        ("32x32 colour", "bf16"),
    ]
    assert all(float(row[-1]) > 0 for row in rows)


@pytest.fixture
def speed(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script as a module, beside whose file it finds the others."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import speed

    return speed


@pytest.mark.parametrize(("engine", "word", "code"), [(0.6, "kept", 0), (0.7, "MISSED", 1)])
def test_bench_ends_with_an_error_where_the_engine_is_too_slow(
    engine: float,
    word: str,
    code: int,
    speed: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(speed, "simulation_of", lambda case, **settings: None)
    monkeypatch.setattr(speed, "plain_seconds", lambda simulation: 1.0)
    monkeypatch.setattr(speed, "engine_seconds", lambda simulation: engine)
    monkeypatch.setattr(speed, "Console", lambda width: Console(width=width, file=sys.stdout))
    with pytest.raises(SystemExit) as end:
        speed.main()
    assert int(end.value.code or 0) == code
    assert word in capsys.readouterr().out


def test_the_plain_loop_trains_and_measures(speed: ModuleType) -> None:
    from plain import train_client

    simulation = speed.simulation_of(speed.TINY[0])
    task, config, data = simulation.task, simulation.config, simulation.dataset
    recipe = speed.augmentation_for(data.facts.shape, False, config.data.least_crop)
    network = simulation.setup.network(task.encoder)
    share = train_client(network, data.train, data.test, recipe, config, 2, 0)
    assert 0 <= share <= 1
    assert not torch.equal(network.prototypes, task.weights["prototypes"])


def test_bench_shows_where_the_time_goes() -> None:
    text = printed("speed", "--tiny", "--profile")
    assert "aten::convolution" in text
    outside = re.search(r"outside torch operations: (\d+) % of the time", text)
    assert outside is not None
    assert int(outside[1]) <= 100


def test_growth_has_a_row_for_every_size() -> None:
    text = printed("growth", "--tiny", "v4")
    table = text[text.index("v4, small-cnn") :]
    names = ("5 clients", "8 clients", "10 clients", "5, alpha", "10, alpha", "a quarter", "100", "200")
    for name in (*names, "8 rounds"):
        rows = table_rows(table, name)
        assert len(rows) == 1, name
        first, later, rate, memory = (float(cell.replace(",", "")) for cell in rows[0][1:])
        assert first >= 0
        assert later >= 0
        assert rate > 0
        assert memory >= 0


def test_lies_are_told_to_every_fusion_under_every_rule(tmp_path: Path) -> None:
    file = tmp_path / "lies.jsonl"
    file.write_text(printed("lies", "--tiny", "0.05"))
    found = by_lie(file)
    assert {*found} == {
        (0.05, lie, fusion, rule) for lie in LIES for fusion in FUSIONS for rule in RULES
    }
    own = {lie: {fusion: found[0.05, lie, fusion, "off"].mean for fusion in FUSIONS} for lie in LIES}
    assert own["honest"]["sketch-guided"] > 90
    assert own["labels flipped"]["sketch-guided"] < own["honest"]["sketch-guided"] - 3
    assert own["random encoder"]["class-mean"] < own["honest"]["class-mean"]
    assert own["tenfold"] != own["honest"]


def test_both_kinds_of_statistics_are_of_the_same_clients() -> None:
    words = ("train.rounds=1", "seed=11", "describe.filters=4")
    recomputed, running = lines("batchnorm", "presets/v4-digits.yaml", *words)
    for row, kind in ((recomputed, "recomputed"), (running, "running")):
        assert [row.pop(key) for key in ("seed", "round", "batchnorm")] == [11, 0, kind]
        shares(row)
    assert {"softmax-mean", "iffi", "parameter-mean"} <= recomputed.keys() == running.keys()
    assert recomputed["parameter-mean"] != running["parameter-mean"]


def test_widths_are_compared_in_every_precision(small_start: Path) -> None:
    sketch = lines("widths", "data.name=digits", "describe.filters=4")
    assert [(row["start"], row["sums"]) for row in sketch] == [("none", "fp32"), ("none", "fp16")]
    known = lines("widths", "data.name=digits", f"model.weights={small_start}")
    assert [(row["width"], row["sums"]) for row in known] == [
        (200, "fp32"),
        (200, "fp16"),
        (200, "fp8"),
    ]
    for rows in (sketch, known):
        sizes = [row["MB"] for row in rows]
        assert sizes == sorted(sizes, reverse=True)
        for row in rows:
            accuracies = {key: row[key] for key in row if key.startswith("sketch-")}
            assert len(accuracies) == 4
            assert min(shares(accuracies).values()) > 0.5


@pytest.mark.parametrize("start", [False, True])
def test_penalties_are_compared_by_how_many_images_were_fitted(start: bool, small_start: Path) -> None:
    words = [f"model.weights={small_start}"] if start else ["describe.filters=4"]
    found = lines("shrinkage", "data.name=digits", *words)
    assert [row["images"] for row in found] == [500, 1000, 1154]
    for row in found:
        assert row["start"] is start
        names = [f"sketch-{rule} {how}" for rule in ("lda", "ridge") for how in ("fixed", "chosen")]
        assert min(shares({name: row[name] for name in names}).values()) > 0.5


def test_trust_is_of_the_fusions_that_a_run_recorded(runs: list[Path]) -> None:
    found = lines("trust", *map(str, runs))
    assert [(row["images"], row["asked"]) for row in found] == [("held out", 288), ("test", 355)]
    summaries = [read_run(run).summary for run in runs]
    recorded = [summaries[0].validation_accuracy, summaries[1].final_accuracy]
    for row, accuracy in zip(found, recorded, strict=True):
        assert row["train.rounds"] == 1
        assert {*shares(row["accuracy"])} == {"m", "m / S", "m / S^2", "guide"}
        assert accuracy is not None
        assert row["accuracy"]["m / S"] == round(accuracy["sketch-guided"], 4)
        assert row["accuracy"]["guide"] == round(accuracy["sketch-lda"], 4)


def test_images_are_tested_without_normalisation(runs: list[Path]) -> None:
    (found,) = lines("unnormalised", str(runs[1]))
    assert found["run"] == "tested"
    recorded = read_run(runs[1]).summary.final_accuracy
    assert recorded is not None
    assert found["unnormalised"].keys() == recorded.keys()
    assert found["unnormalised"]["sketch-lda"] == recorded["sketch-lda"]
    assert found["unnormalised"]["class-mean"] < recorded["class-mean"]


def test_transport_is_timed_by_every_way_but_flower() -> None:
    check_transport(lines("transport", "--tiny", "--no-flower"), ["one process", "files"])


@pytest.mark.flower
def test_transport_is_timed_on_flower() -> None:
    check_transport(lines("transport", "--tiny"), [*WHERE])


def check_transport(found: list[dict[str, Any]], ways: list[str]) -> None:
    assert [row["way"] for row in found] == ways
    for row in found:
        assert 1e5 < row["upload_bytes"] < 1e7
        assert all(seconds > 0 for seconds in row["seconds"].values())
    assert {"task", "north", "south", "west", "server"} == found[1]["seconds"].keys()


def test_a_network_from_elsewhere_becomes_a_start(tmp_path: Path) -> None:
    """The tensors of the published checkpoint come in this order, under names of its own."""
    torch.manual_seed(0)
    own = Lite0().state_dict()
    theirs = {f"_blocks.{number}": value for number, value in enumerate(own.values())}
    classifier = {"_fc.weight": torch.zeros(1000, 1280), "_fc.bias": torch.zeros(1000)}
    checkpoint, converted = tmp_path / "lite0.pth", tmp_path / "lite0.safetensors"
    torch.save({**theirs, **classifier}, checkpoint)
    printed("efficientnet_lite", str(checkpoint), str(converted))
    found = load_file(converted)
    assert found.keys() == own.keys()
    assert all(torch.equal(found[name], own[name]) for name in own)
    code = f"{BENCHMARKS / 'efficientnet_lite.py'}:lite0"
    words = ("--encoder", code, "--weights", str(converted), "--pictures", "20", "--pixels", "8")
    with own_code_forgotten():
        done = command("start", "imagenet.safetensors", *words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    start = read_start(tmp_path / "imagenet.safetensors")
    assert start is not None
    assert torch.equal(start.weights["layers.0.0.weight"].float(), own["layers.0.0.weight"])


def test_every_picture_from_records_is_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []
    monkeypatch.setattr(pictures, "pictures_of_the_demo", lambda *words: asked.append(words))
    pictures.main(str(tmp_path / "images"), "1")
    assert {path.name for path in (tmp_path / "images").iterdir()} == {*pictures.DRAWN}
    assert all(path.read_bytes().startswith(PNG) for path in (tmp_path / "images").iterdir())
    assert asked == [(tmp_path / "images", "1")]


def finished_demo(folder: Path) -> Path:
    for made in (*run_pictures.FIGURES.values(), *run_pictures.PAGES.values()):
        (folder / made).parent.mkdir(parents=True, exist_ok=True)
        (folder / made).write_bytes(PNG + made.encode())
    return folder


CHROMIUM = """#!/bin/sh
for word; do case "$word" in --screenshot=*) echo "$*" > "${word#--screenshot=}";; esac; done
"""


def test_pictures_of_the_demo_are_taken_with_a_browser(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "chromium").write_text(CHROMIUM)
    (tmp_path / "chromium").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    images = tmp_path / "images"
    images.mkdir()
    run_pictures.take(finished_demo(tmp_path / "demo"), images)
    assert {path.name for path in images.iterdir()} == {*run_pictures.FIGURES, *run_pictures.PAGES}
    for name, made in run_pictures.FIGURES.items():
        assert (images / name).read_bytes() == PNG + made.encode()
    for name, page in run_pictures.PAGES.items():
        assert (tmp_path / "demo" / page).as_uri() in (images / name).read_text()


def test_without_a_browser_its_picture_is_left_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(run_pictures, "BROWSERS", ("no-such-browser",))
    images = tmp_path / "images"
    images.mkdir()
    run_pictures.take(finished_demo(tmp_path / "demo"), images)
    assert {path.name for path in images.iterdir()} == {*run_pictures.FIGURES}
    assert "report.png is left as it was" in capsys.readouterr().out


@pytest.mark.soak
def test_every_picture_is_made_of_a_real_demo(tmp_path: Path) -> None:
    """A minute on two cores."""
    text = printed("pictures", str(tmp_path), "1")
    made = {path.name for path in tmp_path.iterdir()}
    left = {name for name in run_pictures.PAGES if f"{name} is left as it was" in text}
    assert made == {*pictures.DRAWN, *run_pictures.FIGURES, *run_pictures.PAGES} - left
    assert all((tmp_path / name).read_bytes().startswith(PNG) for name in made)


def test_tables_are_written_and_a_page_that_differs_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a copy of two pages; tests/test_tables.py compares all."""
    docs = tmp_path / "docs"
    docs.mkdir()
    monkeypatch.setattr(pages, "PAGES", ("../README.md", "fusion.md"))
    for name in pages.PAGES:
        shutil.copyfile(pages.DOCS / name, docs / name)
    monkeypatch.setattr(pages, "DOCS", docs)
    pages.main()
    written = {name: (docs / name).read_text() for name in pages.PAGES}
    pages.main("--check")
    page = docs / "fusion.md"
    page.write_text(re.sub(r"(?<=\| )\d+\.\d(?= \|)", "99.9", written["fusion.md"], count=1))
    with pytest.raises(SystemExit, match=r"docs/fusion\.md: a table differs"):
        pages.main("--check")
    pages.main()
    assert {name: (docs / name).read_text() for name in pages.PAGES} == written


def test_every_script_is_started_by_a_test_above() -> None:
    text = Path(__file__).read_text()
    assert {name for name in ALONE if not re.search(rf'(?:printed|lines)\("{name}"', text)} == set()


def test_every_other_file_is_imported_by_a_script() -> None:
    texts = {path.stem: path.read_text() for path in BENCHMARKS.glob("*.py")}
    for other in texts.keys() - ALONE:
        users = [
            name
            for name in ALONE
            if re.search(rf"^from (benchmarks\.)?{other} import", texts[name], re.M)
        ]
        assert users, other


SHOWING = [ROOT / "Makefile", ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
SHOWING += [*sorted((ROOT / "docs").glob("*.md")), *sorted(BENCHMARKS.rglob("*.py"))]


@pytest.mark.parametrize("page", SHOWING, ids=lambda page: page.name)
def test_every_benchmark_shown_is_started_as_it_is_tested(page: Path) -> None:
    tested = {" ".join(spelled(name)) for name in ALONE} | {"-m benchmarks.tables"}
    shown = {" ".join(found["words"].split()) for found in SPELLED.finditer(page.read_text())}
    assert shown <= tested


MAKEFILE = (ROOT / "Makefile").read_text()
VARIABLES = dict(re.findall(r"^(\w+) *[:?]?= *(.*)$", MAKEFILE, re.M))
BIN = Path(sys.executable).parent


def expanded(text: str) -> str:
    while found := re.search(r"\$\((\w+)\)", text):
        text = text.replace(found[0], VARIABLES[found[1]])
    return text


def targets() -> dict[str, tuple[list[str], list[str]]]:
    """By name, what a target depends on, and its commands."""
    found: dict[str, tuple[list[str], list[str]]] = {}
    for head, needs, body in re.findall(r"^([\w.$(){}/-]+):(?!=)(.*)\n((?:\t.*\n?)*)", MAKEFILE, re.M):
        found[expanded(head)] = (
            expanded(needs).split(),
            [expanded(line.strip()) for line in body.splitlines()],
        )
    return found


TARGETS = targets()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
MARKERS = [each.split(":")[0] for each in PROJECT["tool"]["pytest"]["ini_options"]["markers"]]


def test_the_makefile_is_read_whole() -> None:
    assert {"demo", "test", "bench", "docs-images", "lint", "clean"} <= TARGETS.keys()
    commands = sum(len(commands) for _, commands in TARGETS.values())
    assert commands == sum(line.startswith("\t") for line in MAKEFILE.splitlines())
    assert {*TARGETS.pop(".PHONY", ([], []))[0]} == TARGETS.keys() - {expanded("$(READY)")}


@pytest.mark.parametrize("target", sorted(TARGETS.keys() - {".PHONY"}))
def test_every_command_of_a_target_exists(target: str) -> None:
    needs, commands = TARGETS[target]
    for need in needs:
        assert need in TARGETS or (ROOT / need).exists(), need
    for line in commands:
        program, *words = shlex.split(line)
        own = program.startswith(f"{VARIABLES['VENV']}/")
        name = Path(program).name
        assert own or shutil.which(program), line
        assert not own or (BIN / name).exists() or name == "pip", line
        checks = {"python": check_python, "pytest": check_pytest, "anchorfl": check_anchorfl}
        checks.get(name, check_paths)(words)


def check_python(words: list[str]) -> None:
    """A module or a script, and a benchmark among those tested."""
    name = words[1] if words[0] == "-m" else words[0]
    assert find_spec(name) if words[0] == "-m" else (ROOT / name).is_file(), name
    if "benchmarks" in name:
        assert re.split(r"[./]", name.removesuffix(".py"))[1] in ALONE


def check_pytest(words: list[str]) -> None:
    if "-m" in words:
        assert words[words.index("-m") + 1] in MARKERS, words


def check_anchorfl(words: list[str]) -> None:
    group: Any = typer.main.get_command(app_of())
    assert words[0] in group.commands


def check_paths(words: list[str]) -> None:
    """Of ruff: folders; mypy, pip, rm and touch name none of the repository's files."""
    for word in words:
        if word in ("src", "tests", "benchmarks", "examples", "docs"):
            assert (ROOT / word).is_dir()
