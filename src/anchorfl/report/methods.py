"""What `anchorfl methods` shows: every method, one method's formula and defaults, every fusion."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TypeVar

from rich.console import Console

from anchorfl.config import TrainOptions
from anchorfl.errors import UserError
from anchorfl.options import describe
from anchorfl.registry import ALIGN_TARGETS, BALANCES, BASE_TERMS, FUSIONS, METHODS, Registry
from anchorfl.report.console import say
from anchorfl.report.tables import listing

T = TypeVar("T")


def first_line(thing: type) -> str:
    return (inspect.getdoc(thing) or "").splitlines()[0]


def lines_of(registry: Registry[T], line: Callable[[T], str]) -> list[tuple[str, str]]:
    """Every name with a line; another package's entry that is broken is shown so and stops nobody."""
    rows = []
    for name in registry.names():
        try:
            rows.append((name, line(registry.get(name))))
        except UserError as error:
            rows.append((name, str(error)))
    return rows


def show_methods(console: Console, name: str | None, fusions: bool) -> None:
    if fusions:
        show_fusions(console)
    elif name is None:
        rows = lines_of(METHODS, lambda method: method.summary)
        rows.append(("torchjd:NAME", "B and A combined by a TorchJD scalarizer (extra: balance)"))
        console.print(listing(rows))
    else:
        show_method(console, name)


def show_method(console: Console, name: str) -> None:
    """What the method minimises, as its balance's docstring writes it, and every default."""
    method = METHODS.get(name)
    balance = BALANCES.get(method.balance)
    say(console, f"{name}: {method.summary}\n")
    terms = [BASE_TERMS.get(term).formula for term in method.base_terms]
    say(console, f"B              {' + '.join(terms)}")
    if method.target is not None:
        say(console, f"A              {ALIGN_TARGETS.get(method.target).formula}")
    say(console, f"lambda         {inspect.getdoc(balance)}\n")
    defaults = {f"align.{key}": (value, text) for key, value, text in describe(balance)}
    for key, value in method.defaults.items():
        defaults[key] = (str(value), defaults.get(key, ("", "default of this method"))[1])
    clipping = {key: (value, text) for key, value, text in describe(TrainOptions)}["clip"]
    defaults.setdefault("train.clip", clipping)
    console.print(listing([(f"{key}={value}", text) for key, (value, text) in defaults.items()]))


def show_fusions(console: Console) -> None:
    rows = []
    for name, line in lines_of(FUSIONS, first_line):
        rows.append((name, line))
        if name in FUSIONS:
            rows += [
                (f"  fusion.{name}.{key}={default}", text)
                for key, default, text in describe(FUSIONS.get(name))
            ]
    console.print(listing(rows))
