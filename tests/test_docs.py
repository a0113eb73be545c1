"""What README.md and docs/ show is so: commands, options, keys, links, pictures, targets, files."""

from __future__ import annotations

import contextlib
import json
import re
import shlex
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import typer
from benchmarks.pictures import DRAWN
from benchmarks.run_pictures import FIGURES
from benchmarks.run_pictures import PAGES as PHOTOGRAPHED
from benchmarks.tables.run_files import example_partition

from anchorfl.cli.main import app_of
from anchorfl.config import SECTIONS
from anchorfl.errors import UserError
from anchorfl.methods import METHODS
from anchorfl.report.keys import fusion_keys, keys_by_methods, keys_of_all
from anchorfl.settings import import_named, parse_words, read_preset, resolve
from anchorfl.sweep import read_plan
from tests.conftest import ROOT, command, own_code_forgotten

README = ROOT / "README.md"
SHOWING = [README, *sorted((ROOT / "docs").glob("*.md"))]
PAGES = [*SHOWING, ROOT / "CONTRIBUTING.md"]
PLACEHOLDER = re.compile(r"[A-Z]{2,}|^runs/|^key=value$|\$")
"""RUN, DIR, FILE, METHOD: what a reader fills in."""
GENERATED = re.compile(r"<!-- table: .*? -->\n(\|.*\n)+")
FENCED = re.compile(r"^```\w*\n(.*?)^```$", re.M | re.S)
QUOTED = re.compile(r"`([^`\n]+)`")
COMMAND = re.compile(r"(?:^|\bdo )anchorfl (?P<words>[^#;]*?)\s*(?=;|\s#|$)")
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
KEYS = {
    key.name
    for keys in (*keys_of_all().values(), *keys_by_methods().values(), fusion_keys())
    for key in keys
}
KEY = re.compile(rf"((?:{'|'.join([*SECTIONS, 'align', 'fusion'])})\.[\w.-]+)=")


OWN = {"align.strength"}
"""Of the balance in CONTRIBUTING.md."""


@pytest.fixture(scope="module", autouse=True)
def code_of_ones_own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The files that CONTRIBUTING.md shows and commands name as FILE.py:NAME."""
    folder = tmp_path_factory.mktemp("code")
    for code in re.findall(
        r"^```python\n(.*?)^```$", (ROOT / "CONTRIBUTING.md").read_text(), re.M | re.S
    ):
        (folder / code.split("\n")[0].removeprefix("# ")).write_text(code)
    with own_code_forgotten():
        with contextlib.chdir(folder):
            own = {"method": "my_balance.py:Sum", "data.name": "my_data.py:STRIPES"}
            import_named({**own, "fusion": "my_fusion.py:NearestSum"})
        with contextlib.chdir(ROOT):
            yield


def name_of(page: Path) -> str:
    return page.name


def text_of(page: Path) -> str:
    """Without the tables that another test compares with the code."""
    return GENERATED.sub("", page.read_text())


def blocks(text: str) -> list[str]:
    """Lines of indented and fenced blocks, those that end in a backslash joined with the next."""
    inside = "\n".join(FENCED.findall(text))
    indented = "\n".join(re.findall(r"^    (.*\S)$", FENCED.sub("", text), re.M))
    return f"{inside}\n{indented}".replace("\\\n", " ").splitlines()


def quoted(text: str) -> list[str]:
    return QUOTED.findall(FENCED.sub("", text).replace("\\|", "|"))


def check_command(line: str, mention: bool) -> None:
    """As the real app reads the words, without running it; a mention may leave arguments out."""
    words = [word for word in shlex.split(line) if word not in ("...", "--help")]
    settings = any("=" in word for word in words) and "key=value" not in words
    assert not settings or "..." not in line.split(), f"anchorfl {line}: what does ... stand for?"
    if words and PLACEHOLDER.search(words[0]):
        return
    found: Any = typer.main.get_command(app_of())
    while words and hasattr(found, "commands"):
        assert words[0] in found.commands, f"there is no command {words[0]}"
        found = found.commands[words.pop(0)]
    if mention and not words:
        return
    try:
        params = found.make_context(found.name, words).params
    except Exception as error:  # of click, or of what typer brings in its place
        raise AssertionError(f"anchorfl {line}: {error}") from None
    check_settings(found.name, params)


def check_settings(name: str, params: dict[str, Any]) -> None:
    """The words of an experiment, its preset or its sweep, as the command would resolve them."""
    given = [word for word in params.get("settings") or params.get("words") or [] if "=" in word]
    settings = {} if given == ["key=value"] else parse_words(given)
    subject = str(params.get("what") or params.get("preset") or params.get("file") or "")
    method = str(params.get("method") or "v4")
    if name == "methods" and params["name"] and not PLACEHOLDER.search(params["name"]):
        METHODS.get(params["name"])
    elif name == "show" and "name" in params:
        settings = {"data.name": params["name"], **settings}
    elif name == "sweep" and not PLACEHOLDER.search(subject):
        assert read_plan(Path(subject)).trials()
    elif name in ("run", "new") and not PLACEHOLDER.search(subject):
        preset = read_preset(Path(subject)) if subject.endswith(".yaml") else {"method": subject}
        method = str(preset.pop("method"))
        settings = {**preset, **settings}
    resolve(method, settings)


def slugs(page: Path) -> list[str]:
    """The anchors that GitHub gives to the headings of a page."""
    headings = re.findall(r"^#+ (.*)$", FENCED.sub("", page.read_text()), re.M)
    return [re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings]


@pytest.mark.parametrize("page", SHOWING, ids=name_of)
def test_every_command_shown_exists_with_its_options_and_keys(page: Path) -> None:
    text = text_of(page)
    for pieces, mention in ((blocks(text), False), (quoted(text), True)):
        for piece in pieces:
            for shown in COMMAND.finditer(piece):
                check_command(shown["words"], mention)


@pytest.mark.parametrize(
    "line",
    [
        "runn v4",
        "site tran task.safetensors --data images --name north -o north.upload",
        "export runs/RUN",
        "fuse runs/RUN --every",
        "demo --rounds many",
        "run v44",
        "run v4 train.epochs=3",
        "run v4 align.gamma=0.1",
        "run v4 fusion=mean",
        "run presets/v5-digits.yaml",
        "sweep presets/sweep-nothing.yaml",
        "task new presets/v4-sites.yaml classes.txt -o task.safetensors --set train.epochs=3",
        "data show digits partition.beta=1",
        "forecast --method v12 align.delta=1",
        "methods v99",
        "run v4 data.name=cifar10 ...",
    ],
)
def test_a_command_that_is_not_so_is_found(line: str) -> None:
    with pytest.raises((AssertionError, UserError)):
        check_command(line, mention=False)


def test_commands_are_found_in_blocks_loops_and_sentences() -> None:
    loop = "    for s in a; do anchorfl one $s; done\n"
    text = loop + "    anchorfl two \\\n      x  # why\n```\nanchorfl three\n```\n"
    found = [shown["words"].split() for line in blocks(text) for shown in COMMAND.finditer(line)]
    assert sorted(found) == [["one", "$s"], ["three"], ["two", "x"]]
    assert quoted("see `anchorfl run v4`") == ["anchorfl run v4"]
    assert sum(bool(COMMAND.search(line)) for line in blocks(README.read_text())) > 20


@pytest.mark.parametrize("page", SHOWING, ids=name_of)
def test_every_key_shown_exists(page: Path) -> None:
    text = text_of(page)
    shown = {key for piece in [*blocks(text), *quoted(text)] for key in KEY.findall(piece)}
    alone = {piece for piece in quoted(text) if KEY.fullmatch(f"{piece}=")}
    files = {piece for piece in alone if piece.endswith((".safetensors", ".onnx", ".pt2", ".json"))}
    assert (shown | alone) - files - KEYS <= OWN


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_link_leads_somewhere(page: Path) -> None:
    for target in LINK.findall(FENCED.sub("", page.read_text())):
        if not target.startswith(("http://", "https://")):
            file, _, anchor = target.partition("#")
            place = (page.parent / file) if file else page
            assert place.exists(), target
            assert not anchor or anchor in slugs(place), target


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_target_module_and_file_shown_exists(page: Path) -> None:
    text = page.read_text()
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.M))
    for piece in [*blocks(text), *quoted(text)]:
        assert set(re.findall(r"^make ([\w-]+)", piece)) <= targets, piece
        for module in re.findall(r"python -m ([\w.]+)", piece):
            assert find_spec(module), piece
        for file in re.findall(r"\b(?:benchmarks|examples|src|tests|presets)/[\w./-]*[\w]", piece):
            assert PLACEHOLDER.search(file) or (ROOT / file).exists(), piece


def test_every_picture_shown_is_one_that_is_made() -> None:
    shown = {Path(link).name for page in PAGES for link in LINK.findall(page.read_text())}
    made = {*DRAWN, *FIGURES, *PHOTOGRAPHED}
    assert {name for name in shown if name.endswith(".png")} == made
    assert {path.name for path in (ROOT / "docs" / "images").iterdir()} == made


RUNNABLE = {
    "methods": "v12-gamma",
    "methods --fusions": "sketch-guided",
    "data list": "fashion-mnist",
    "data show digits partition.alpha=0.1 partition.seed=3": "effective",
    "forecast --method v12 --rounds 50 --base 8 --align-from 1 --align-to 0.001": "lambda",
    "run v12 align.guard=stop": "run folder",
}


@pytest.mark.parametrize("line", RUNNABLE)
def test_what_is_cheap_runs_as_it_is_shown(line: str, tmp_path: Path) -> None:
    assert re.search(rf"^    anchorfl {re.escape(line)}(  .*)?$", README.read_text(), re.M)
    short = ["train.rounds=1"] if line.startswith("run ") else []
    done = command(*line.split(), *short, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert RUNNABLE[line] in done.stdout


def python_shown() -> list[str]:
    """In the order of the pages."""
    return [
        code
        for page in SHOWING
        for code in re.findall(r"^```python\n(.*?)^```$", page.read_text(), re.M | re.S)
    ]


@pytest.mark.parametrize("code", python_shown(), ids=lambda code: code.splitlines()[0])
def test_python_shown_runs(code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    if named := re.match(r"# (\w+\.py)\n", code):
        Path(named[1]).write_text(code)
        (attribute,) = re.findall(r"^def (\w+)", code, re.M)
        done = command(
            "run", "v4", f"model.name={named[1]}:{attribute}", "train.rounds=1", cwd=tmp_path
        )
        assert done.returncode == 0, done.stderr
        return
    if "compare.csv" in code:
        pytest.importorskip("pandas")
        assert command("run", "v4", "train.rounds=1", "out=run", cwd=tmp_path).returncode == 0
        words = ("compare", "run", "--table", "compare.csv")
        assert command(*words, cwd=tmp_path).returncode == 0
    exec(code.replace('"rounds": 20', '"rounds": 1'), {})


def test_the_partition_of_the_reference_is_one_that_is_written() -> None:
    (shown,) = re.findall(r"```json\n(.*?)```", (ROOT / "docs/reference.md").read_text(), re.S)
    assert json.loads(shown) == json.loads(example_partition())
