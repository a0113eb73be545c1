"""Things known by name: data sets, methods, balances, fusions, models."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from difflib import get_close_matches
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Generic, TypeVar

from anchorfl.errors import UserError

T = TypeVar("T")


def suggestion(word: str, known: Iterable[str]) -> str:
    """A half sentence that names the nearest known spelling, or nothing."""
    spellings = {name.lower(): name for name in known}
    close = get_close_matches(word.lower(), list(spellings), n=1, cutoff=0.5)
    return f"; did you mean {spellings[close[0]]}?" if close else ""


class Registry(Generic[T]):
    """A table from names to things of one kind.

    The entries of this package are registered when `module` is imported; other packages add theirs
    through the entry point group `anchorfl.<kind>` and are imported when they are asked for.
    """

    def __init__(self, kind: str, module: str) -> None:
        self.kind = kind
        self._module = module
        self._entries: dict[str, T] = {}
        self._families: dict[str, Callable[[str], T]] = {}
        self._elsewhere: dict[str, EntryPoint] = {}
        self._loaded = False

    def register(self, name: str) -> Callable[[T], T]:
        def add(entry: T) -> T:
            self._entries[name] = entry
            return entry

        return add

    def family(self, prefix: str) -> Callable[[Callable[[str], T]], Callable[[str], T]]:
        """For entries made on demand: `prefix:NAME` is what the decorated function makes of NAME."""

        def add(make: Callable[[str], T]) -> Callable[[str], T]:
            self._families[prefix] = make
            return make

        return add

    def _load(self) -> None:
        if not self._loaded:
            self._loaded = True
            import_module(self._module)
            points = entry_points(group=f"anchorfl.{self.kind.replace(' ', '_')}")
            self._elsewhere = {point.name: point for point in points}

    def names(self) -> list[str]:
        self._load()
        return list({**self._entries, **self._elsewhere})

    def __contains__(self, name: str) -> bool:
        """Whether it is there and loaded."""
        return name in self._entries

    def get(self, name: str) -> T:
        self._load()
        prefix, _, member = name.partition(":")
        if member and prefix in self._families:
            return self._families[prefix](member)
        if name not in self._entries and name in self._elsewhere:
            try:
                self._entries[name] = self._elsewhere[name].load()
            except Exception as error:  # another package's code can raise anything
                place = self._elsewhere[name].value
                raise UserError(f"{self.kind} '{name}': {place} cannot be loaded ({error})") from None
        if name not in self._entries:
            raise UserError(
                f"{self.kind} '{name}' is unknown{suggestion(name, self.names())}"
                f" (known: {', '.join(self.names())})"
            )
        return self._entries[name]
