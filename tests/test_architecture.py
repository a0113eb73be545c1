"""Who may import whom: no cycles, sites apart from the server, a model apart from both."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from tests.conftest import ROOT, process_of

SOURCE = ROOT / "src" / "anchorfl"
LAYERS = [
    {"doors", "errors", "randomness", "tensors", "version"},
    {"compute", "files", "measures", "registry"},
    {"events", "methods", "options"},
    {"objective"},
    {"config"},
    {"data"},
    {"describe", "nn"},
    {"messages", "statistics"},
    {"fusion"},
    {"model", "settings"},
    {"prepare", "runs"},
    {"diagnose", "server", "site"},
    {"loop"},
    {"start", "transport"},
    {"flower_app", "simulate"},
    {"sweep"},
    {"report"},
    {"cli", "experiment"},
]
"""From the bottom up: what stands in one line imports from lines above it in this list alone."""
PREDICT = 45
"""Modules of this package that a prediction may import."""


@dataclass(frozen=True)
class Import:
    """`module` imports `names` from `target`, at its top, for types alone, or in a function."""

    module: str
    target: str
    names: tuple[str, ...]
    inside: bool


def module_of(path: Path) -> str:
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_of(path): path for path in sorted(SOURCE.rglob("*.py"))}


def imports_of(module: str, path: Path) -> Iterator[Import]:
    def walk(node: ast.AST, inside: bool) -> Iterator[Import]:
        for child in ast.iter_child_nodes(node):
            function = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            if isinstance(child, ast.ImportFrom) and str(child.module).split(".")[0] == "anchorfl":
                names = tuple(alias.name for alias in child.names)
                yield Import(module, str(child.module), names, inside)
            yield from walk(child, inside or function)

    yield from walk(ast.parse(path.read_text()), False)


IMPORTS = [each for module, path in MODULES.items() for each in imports_of(module, path)]
DOORS = {
    module_of(path): {
        name: each.target for each in imports_of(module_of(path), path) for name in each.names
    }
    for path in sorted(SOURCE.rglob("__init__.pyi"))
}
"""By package and name, the module that defines what the package offers."""


def room(module: str) -> str:
    return module.split(".")[1] if "." in module else "__init__"


def homes(each: Import) -> set[str]:
    """The modules that an import leads to: through a door, to the module behind it."""
    door = DOORS.get(each.target, {})
    behind = {door.get(name, f"{each.target}.{name}") for name in each.names}
    return {home if home in MODULES else each.target for home in behind} - {each.module}


def test_no_module_imports_itself_by_way_of_others_not_even_for_types() -> None:
    graph: dict[str, set[str]] = {module: set() for module in MODULES}
    for each in IMPORTS:
        graph[each.module] |= homes(each)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


def test_packages_import_from_lower_layers_alone() -> None:
    layer = {name: number for number, names in enumerate(LAYERS) for name in names}
    upward = [
        each
        for each in IMPORTS
        if room(each.module) not in ("__init__", "__main__")
        and room(each.module) != room(each.target)
        and layer[room(each.module)] <= layer[room(each.target)]
    ]
    assert upward == []


def test_at_most_a_dozen_modules_lie_flat_and_every_package_has_a_layer() -> None:
    flat = {path.stem for path in SOURCE.glob("*.py")} - {"__init__", "__main__"}
    packages = {path.name for path in SOURCE.iterdir() if any(path.rglob("*.py"))}
    assert len(flat) <= 12
    assert flat | packages == set().union(*LAYERS)


def test_a_package_is_entered_through_its_door() -> None:
    """Exceptions: a command imports one report; a site's half of transport is not the server's."""
    halves = ("report", "transport", "cli", "runs.numbers")
    through_the_wall = [
        each
        for each in IMPORTS
        if room(each.module) != room(each.target)
        and each.target.count(".") > 1
        and not each.target.removeprefix("anchorfl.").startswith(halves)
        and not (each.inside and each.target.startswith("anchorfl.compute.kernels."))
        and room(each.module) not in ("__init__", "__main__", "flower_app")
    ]
    assert through_the_wall == []


def test_no_door_offers_a_name_that_a_module_beside_it_has() -> None:
    for package, names in DOORS.items():
        assert not [name for name in names if f"{package}.{name}" in MODULES]
        assert not [name for name, home in names.items() if home not in MODULES]


def test_no_private_name_leaves_its_module() -> None:
    assert [each for each in IMPORTS if any(name.startswith("_") for name in each.names)] == [
        each for each in IMPORTS if each.names == ("__version__",)
    ]
    for path in MODULES.values():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and node.attr.startswith("_") and node.attr[1] != "_":
                owner = ast.unparse(node.value)
                own = owner in ("self", "cls", "super()") or owner.startswith(("torch", "np"))
                assert own or node.attr in ("_fields", "_asdict", "_reconstruct"), (
                    f"{path}: {owner}.{node.attr}"
                )


def test_contributing_names_every_package() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    for package in (path for path in SOURCE.iterdir() if any(path.rglob("*.py"))):
        assert f"`{package.name}/`" in text


def imported_by(*words: str, cwd: Path) -> set[str]:
    """The modules of this package that a command imports, in a process of its own."""
    code = (
        "import sys\n"
        "from anchorfl.cli.main import main\n"
        "try: main()\n"
        "except SystemExit as end: assert not end.code, end.code\n"
        "print(*(name for name in sys.modules if name.split('.')[0] == 'anchorfl'), sep='\\n')\n"
    )
    done = process_of([sys.executable, "-c", code, *words], cwd)
    assert done.returncode == 0, done.stderr
    return {line for line in done.stdout.splitlines() if line.split(".")[0] == "anchorfl"}


@pytest.fixture(scope="module")
def federation(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two sites' digits as pictures, a task, and a model of their uploads."""
    folder = tmp_path_factory.mktemp("federation")
    for words in (
        ("data", "example", "images"),
        (
            *("task", "new", "presets/v4-sites.yaml", "images/classes.txt", "-o", "task.safetensors"),
            *("--grey", "--set", "data.size=8", "--set", "train.rounds=1"),
        ),
        *(
            ("site", "train", "task.safetensors", "--data", f"images/{site}", "--name", site,
             "-o", f"{site}.upload")
            for site in ("north", "south")
        ),
        ("server", "fuse", "task.safetensors", "north.upload", "south.upload", "-o", "model"),
    ):  # fmt: skip
        imported = imported_by(*words, cwd=folder)
        if words[:2] == ("site", "train"):
            assert not {name for name in imported if room(name) in ("server", "fusion", "simulate")}
            assert "anchorfl.site.site" in imported
        if words[:2] == ("server", "fuse"):
            assert not {name for name in imported if room(name) in ("site", "simulate")}
            assert "anchorfl.server.server" in imported
    return folder


@pytest.mark.parametrize(
    "words",
    [
        ("check", "task.safetensors", "--data", "images/west"),
        (*("train", "task.safetensors", "--data", "images/north", "--name", "north"),
         *("-o", "north.upload", "--counts", "large", "--telemetry")),
    ],
)  # fmt: skip
def test_a_site_imports_neither_the_server_nor_its_fusions(
    words: tuple[str, ...], federation: Path
) -> None:
    """Checked of a training when the files were made; here of other commands of a site."""
    imported = imported_by("site", *words, cwd=federation)
    assert "anchorfl.messages.parts" in imported
    assert not {name for name in imported if room(name) in ("server", "fusion", "simulate")}


def test_a_prediction_imports_the_model_and_little_else(federation: Path) -> None:
    picture = next((federation / "images" / "west").rglob("*.png"))
    imported = imported_by("predict", "model/model.safetensors", str(picture), cwd=federation)
    assert "anchorfl.model.fused" in imported
    assert len(imported) <= PREDICT
    apart = {"simulate", "transport", "site", "server", "sweep", "diagnose", "loop", "runs.run"}
    assert not {name for name in imported if room(name) in apart}
