"""The tables of docs/reference.md that list keys, methods, fusions, commands and the Python door."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from functools import partial
from typing import Any

import typer
from benchmarks.tables.figures import TABLES, Row, table

import anchorfl
from anchorfl.cli.main import app_of
from anchorfl.fusion import FUSIONS
from anchorfl.methods import METHODS
from anchorfl.objective import BALANCES
from anchorfl.report.keys import (
    Key,
    about_preset,
    fusion_keys,
    keys_by_methods,
    keys_of_all,
    loaded,
    set_by_data,
    set_by_method,
    words_of,
)
from anchorfl.report.methods import first_line
from anchorfl.settings import preset_names


def code(words: object) -> str:
    return f"`{words}`" if str(words) else ""


def cells(*texts: str) -> Row:
    """A row whose texts may hold bars."""
    return [text.replace("|", "\\|") for text in texts]


def key_row(key: Key) -> Row:
    return cells(code(key.name), key.takes, key.default, key.help)


KEY_HEADINGS = ["key", "takes", "default", "meaning"]


def section_table(section: str) -> list[Row]:
    return [KEY_HEADINGS, *map(key_row, keys_of_all()[section])]


for each in keys_of_all():
    TABLES[f"keys-{each}"] = partial(section_table, each)


@table("keys-align")
def align() -> list[Row]:
    groups = keys_by_methods().items()
    rows = [[*key_row(key), ", ".join(methods)] for methods, keys in groups for key in keys]
    return [[*KEY_HEADINGS, "methods"], *rows]


@table("keys-fusion")
def fusion_options() -> list[Row]:
    return [KEY_HEADINGS, *map(key_row, fusion_keys())]


@table("methods")
def methods() -> list[Row]:
    rows = [cells(code(name), each.summary, each.balance) for name, each in loaded(METHODS).items()]
    return [["method", "what it is", "balance"], *rows]


@table("balances")
def balances() -> list[Row]:
    users = {name: method.balance for name, method in loaded(METHODS).items()}
    rows = []
    for name, kind in loaded(BALANCES).items():
        own = [method for method, balance in users.items() if balance == name]
        rows.append(cells(code(name), first_line(kind), ", ".join(own)))
    return [["balance", "who sets lambda", "methods"], *rows]


@table("all-fusions")
def fusions() -> list[Row]:
    rows = [cells(code(name), first_line(kind)) for name, kind in loaded(FUSIONS).items()]
    return [["fusion", "what the server does"], *rows]


@table("set-by-data")
def by_data() -> list[Row]:
    rows = [[code(name), code(words_of(own))] for name, own in set_by_data().items()]
    return [["data.name", "sets"], *rows]


@table("set-by-method")
def by_method() -> list[Row]:
    rows = [[code(name), code(words_of(own))] for name, own in set_by_method().items()]
    return [["method", "sets"], *rows]


@table("presets")
def presets() -> list[Row]:
    return [["file", "what it runs"], *([code(name), about_preset(name)] for name in preset_names())]


def commands_of(group: Any, path: str = "anchorfl") -> Iterator[tuple[str, Any]]:
    """Every command under its full name, from the real app."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands_of(command, f"{path} {name}")
        else:
            yield f"{path} {name}", command


def arguments(command: Any) -> str:
    found = [each for each in command.params if each.param_type_name == "argument"]
    return " ".join(each.metavar or each.name.upper() for each in found)


@table("commands")
def commands() -> list[Row]:
    rows = []
    for path, command in commands_of(typer.main.get_command(app_of())):
        does = inspect.cleandoc(command.help).splitlines()[0]
        rows.append(cells(code(f"{path} {arguments(command)}".strip()), does))
    return [["command", "what it does"], *rows]


@table("command-options")
def command_options() -> list[Row]:
    rows = []
    for path, command in commands_of(typer.main.get_command(app_of())):
        for option in command.params:
            if option.param_type_name == "option":
                value = "" if option.is_flag or option.default is None else option.default
                default = "required" if option.required else str(value)
                names = ", ".join(map(code, option.opts))
                rows.append(cells(code(path), names, default, option.help or ""))
    return [["command", "option", "default", "meaning"], *rows]


def signature(thing: Any) -> str:
    """As Python prints it, without what a reader knows."""
    bare = re.sub(r"(: |-> )'([^']*)'", r"\1\2", str(inspect.signature(thing)))
    return re.sub(r"\(self(, )?", "(", bare).removesuffix(" -> None")


@table("python")
def python() -> list[Row]:
    rows = []
    for name in (name for name in anchorfl.__all__ if name != "__version__"):
        thing = getattr(anchorfl, name)
        called = "" if thing is anchorfl.UserError else signature(thing)
        rows.append(cells(code(f"anchorfl.{name}{called}"), first_line(thing)))
    return [["name", "what it is"], *rows]


def members(owner: type) -> list[Row]:
    """What a class shows: its own properties with their type, and its methods."""
    rows = []
    for name, member in vars(owner).items():
        getter = getattr(member, "fget", None) or getattr(member, "func", None)
        if name.startswith("_") or not (getter or inspect.isfunction(member)):
            continue
        called = f"{name}: {getter.__annotations__['return']}" if getter else name + signature(member)
        rows.append(cells(code(called), first_line(getter or member)))
    return [["attribute", "what it is"], *rows]


for each in (anchorfl.Experiment, anchorfl.Result):
    TABLES[f"python-{each.__name__}"] = partial(members, each)
