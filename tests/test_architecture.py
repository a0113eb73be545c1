"""The rooms and their doors: who may import whom."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "anchorfl"
LAYERS = [
    {"errors"},
    {"files"},
    {"registry", "tensors", "randomness"},
    {"options", "methods"},
    {"config"},
    {"settings"},
    {"compute"},
    {"objective"},
    {"data"},
    {"models"},
    {"describe"},
    {"wire"},
    {"site", "server"},
    {"runs"},
    {"diagnose"},
    {"engine"},
    {"start", "flower_app"},
    {"predictor"},
    {"experiment"},
    {"sweep"},
    {"report"},
    {"cli"},
]
"""From the bottom up: what stands in one line may import what stands above it in this list."""
DOORWAYS = {"__init__", "__main__"}
LAZY = {
    "cli": "a command imports what it needs, so that the others start at once",
    "data.augment": "Triton is there on a GPU only",
    "models.batchnorm": "Triton is there on a GPU only",
    "compute.kernels.__init__": "Triton is there on a GPU only",
    "objective.balance.__init__": "TorchJD is an extra",
    "engine.federation": "Flower is an extra",
    "objective.targets": "a wrong word is refused without importing torch",
    "__init__": "the package itself starts at once",
}


@dataclass(frozen=True)
class Import:
    """`module` (without `anchorfl.`) imports `target`, inside a function or for types alone."""

    module: str
    target: str
    names: tuple[str, ...]
    inside: bool
    typing: bool

    @property
    def room(self) -> str:
        return self.module.split(".")[0]

    @property
    def target_room(self) -> str:
        return self.target.split(".")[0]


def modules() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


def name_of(path: Path) -> str:
    return ".".join(path.relative_to(SOURCE).with_suffix("").parts)


def imports_of(path: Path) -> Iterator[Import]:
    def walk(node: ast.AST, inside: bool, typing: bool) -> Iterator[Import]:
        for child in ast.iter_child_nodes(node):
            function = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            checked = isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test)
            if isinstance(child, ast.ImportFrom) and (child.module or "").startswith("anchorfl."):
                names = tuple(alias.name for alias in child.names)
                target = str(child.module).removeprefix("anchorfl.")
                yield Import(name_of(path), target, names, inside, typing)
            elif isinstance(child, ast.ImportFrom) and child.module == "anchorfl":
                for alias in child.names:
                    yield Import(name_of(path), alias.name, (), inside, typing)
            yield from walk(child, inside or function, typing or checked)

    yield from walk(ast.parse(path.read_text()), False, False)


IMPORTS = [each for path in modules() for each in imports_of(path)]
ROOMS = {path.name for path in SOURCE.iterdir() if path.is_dir() and any(path.rglob("*.py"))}


def layer(room: str) -> int:
    return next(number for number, names in enumerate(LAYERS) if room in names)


def test_at_most_a_dozen_modules_lie_flat_and_every_room_has_a_place() -> None:
    flat = {path.stem for path in SOURCE.glob("*.py")}
    assert len(flat) <= 12
    assert flat - DOORWAYS | ROOMS == set().union(*LAYERS)


@pytest.mark.parametrize(("room", "other"), [("site", "server"), ("server", "site")])
def test_site_and_server_never_import_each_other(room: str, other: str) -> None:
    assert [each for each in IMPORTS if each.room == room and each.target_room == other] == []


def test_nothing_but_the_command_and_the_report_imports_them() -> None:
    showing = {"cli", "report"}
    strays = [each for each in IMPORTS if each.target_room in showing and each.room not in showing]
    assert [each for each in strays if each.module != "__main__"] == []


def test_imports_go_from_upper_layers_to_lower_ones() -> None:
    upward = [
        each
        for each in IMPORTS
        if each.module not in DOORWAYS
        and not each.typing
        and each.room != each.target_room
        and each.target_room in ROOMS | {name for names in LAYERS for name in names}
        and layer(each.room) <= layer(each.target_room)
    ]
    assert upward == []


def test_a_room_is_entered_through_its_door() -> None:
    """Exceptions: the command imports one report; what needs Triton or Flower is imported in place."""
    through_the_wall = [
        each
        for each in IMPORTS
        if each.room != each.target_room
        and "." in each.target
        and each.target_room in ROOMS
        and not (each.room == "cli" and each.target_room == "report")
        and not (each.inside and each.target.startswith("compute.kernels."))
        and each.target != "engine.flower_messages"
        and each.module != "__main__"
    ]
    assert through_the_wall == []


def test_no_private_name_leaves_its_module() -> None:
    assert [each for each in IMPORTS if any(name.startswith("_") for name in each.names)] == []
    for path in modules():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and node.attr.startswith("_") and node.attr[1] != "_":
                owner = ast.unparse(node.value)
                own = owner in ("self", "cls", "super()") or owner.startswith(("torch", "np"))
                assert own or node.attr in ("_fields", "_asdict", "_reconstruct"), (
                    f"{path}: {owner}.{node.attr}"
                )


def test_imports_inside_functions_have_a_reason() -> None:
    inside = {each.module for each in IMPORTS if each.inside}
    assert {name for name in inside if name not in LAZY and name.split(".")[0] not in LAZY} == set()


def test_the_rooms_readme_names_every_room() -> None:
    text = (SOURCE.parents[1] / "CONTRIBUTING.md").read_text()
    for room in ROOMS:
        assert f"`{room}/`" in text
