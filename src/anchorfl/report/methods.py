"""What `anchorfl methods` shows: every method, one method's formula and defaults, every fusion."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from itertools import chain
from typing import TypeVar

from rich.console import Console

from anchorfl.config import DataOptions
from anchorfl.errors import UserError
from anchorfl.fusion import FUSIONS
from anchorfl.methods import METHODS, Method
from anchorfl.objective import BASE_TERMS
from anchorfl.options import describe
from anchorfl.registry import Registry
from anchorfl.report.console import say
from anchorfl.report.glossary import first_line
from anchorfl.report.keys import align_keys, keys_of_all, set_by_data, shown, words_of
from anchorfl.report.tables import listing
from anchorfl.server import SERVER_HALVES
from anchorfl.settings import flatten, resolve

T = TypeVar("T")
NOTATION = (
    "f features of two views, P prototypes, y labels, C classes; u = log sl2 and v = log sa2 learned\n"
    "log-variances, raw lambda = sl2/sa2 = e^(u - v), s = s(p) the anneal factor;\n"
    "/ 1: at temperature 1, the first cross-entropy once more, as in the diary's sum"
)


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
        rows.append(("v6:BALANCE", "V6's contrast weighed by any balance, such as v6:coupled"))
        say(console, "A client minimises B + lambda A: base loss, align loss, and who sets lambda.\n")
        console.print(listing(rows))
    else:
        show_method(console, name)


def show_method(console: Console, name: str) -> None:
    """What the method minimises, its defaults, and where the diary's tables had others."""
    method = METHODS.get(name)
    config = resolve(name, {})
    say(console, f"{name}: {method.summary}\n")
    terms = [BASE_TERMS.get(term).formula for term in method.base_terms]
    say(console, f"B              {' + '.join(terms) or 'none: nothing is trained'}")
    if config.target is not None:
        say(console, f"A              {config.target.formula}")
    if terms:
        say(console, f"lambda         {inspect.getdoc(type(config.align))}")
    if method.server is not None:
        say(console, f"after a round  {inspect.getdoc(SERVER_HALVES.get(method.server))}")
    if terms:
        say(console, f"\n{NOTATION}\n")
    ours = flatten(config.to_dict())
    keys = [*align_keys(method), *chain(*keys_of_all().values())]
    helps = {key.name: key.help for key in keys}
    own = [key for key in ours if key.startswith("align.") or key in method.defaults]
    own.append("train.clip")
    console.print(listing([(f"{key}={shown(ours[key])}", helps[key]) for key in own]))
    say(
        console,
        "\nAll other keys and their defaults: anchorfl run --help. What data.name sets, unless you do:",
    )
    console.print(listing([(each, words_of(sets)) for each, sets in set_by_data().items()]))
    show_diary(console, name, method)


def show_diary(console: Console, name: str, method: Method) -> None:
    """Where the settings of the diary's tables differ from ours on the same data set."""
    data = {"data.name": method.diary.get("data.name", DataOptions.name)}
    ours = flatten(resolve(name, data).to_dict())
    differing = [key for key in method.diary if ours.get(key) != method.diary[key]]
    if differing:
        on = f"on {data['data.name']} (presets/study has its experiments)"
        say(console, f"\nThe diary's own settings {on}, where ours differ:")
        rows = [
            (f"{key}={shown(method.diary[key])}", f"ours {shown(ours.get(key))}") for key in differing
        ]
        console.print(listing(rows))


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
