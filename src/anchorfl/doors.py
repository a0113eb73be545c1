"""Doors: what a package offers is listed in its `__init__.pyi`, and imported when it is asked for.

So a command imports what it uses, and a type checker reads the same list.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any


def door(package: str, file: str) -> Callable[[str], Any]:
    """The `__getattr__` of a package whose `__init__.py` is this file."""
    listed = ast.parse(Path(file).with_suffix(".pyi").read_text())
    homes = {
        alias.name: str(node.module)
        for node in listed.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }

    def imported(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(homes[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    return imported
