"""Things known by name. Each kind of them has a table in the package that defines it.

Each kind can be added to from another package, through the entry point group `anchorfl.KIND`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from difflib import get_close_matches
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from importlib.util import module_from_spec, spec_from_file_location
from inspect import currentframe
from pathlib import Path
from typing import Any, Generic, TypeVar

from anchorfl.errors import UserError, in_one_line

T = TypeVar("T")


REGISTRIES: list[Registry[Any]] = []


def suggestion(word: str, known: Iterable[str]) -> str:
    """A half sentence with the nearest known spelling, or nothing."""
    spellings = {name.lower(): name for name in known}
    close = get_close_matches(word.lower(), list(spellings), n=1, cutoff=0.6)
    return f"; did you mean {spellings[close[0]]}?" if close else ""


def is_in_a_file(name: str) -> bool:
    """Whether a name is FILE.py:NAME, code of somebody's own."""
    return name.rpartition(":")[0].endswith(".py")


def imported(name: str, key: str) -> Any:
    """What `FILE.py:NAME` or `package.module:NAME` points at; an error names the key it came by."""
    place, _, attribute = name.rpartition(":")
    try:
        if not is_in_a_file(name):
            return getattr(import_module(place), attribute)
        for registry in REGISTRIES:
            registry.names()
        file = Path(place).expanduser().absolute()
        spec = spec_from_file_location(file.stem, file)
        assert spec is not None
        assert spec.loader is not None
        module = module_from_spec(spec)
        spec.loader.exec_module(module)
        return getattr(module, attribute)
    except FileNotFoundError:
        raise UserError(f"{key}={name}: no such file") from None
    except UserError as error:
        raise UserError(f"{key}={name}: {error}") from None
    except Exception as error:  # a user's own code can raise anything
        raise UserError(f"{key}={name}: {in_one_line(error)}") from None


class Registry(Generic[T]):
    """A table from names to things of one kind.

    Nothing is imported until a name is asked for. Then `modules` are, which register the entries of
    this package; an entry of another package is imported when it is asked for itself.
    """

    def __init__(self, kind: str, *modules: str) -> None:
        self.kind = kind
        self._modules = modules
        self._entries: dict[str, T] = {}
        self._families: dict[str, Callable[[str], T]] = {}
        self._elsewhere: dict[str, EntryPoint] = {}
        self._homes: dict[str, str] = {}
        self._loaded = False
        REGISTRIES.append(self)

    def register(self, name: str) -> Callable[[T], T]:
        """Under a name that is free, or was given in the same file."""

        def add(entry: T) -> T:
            frame = currentframe()
            home = frame.f_back.f_code.co_filename if frame and frame.f_back else ""
            if name in self._entries and self._homes.get(name, home) != home:
                raise UserError(f"registers {self.kind} '{name}', a name that is taken")
            self._entries[name], self._homes[name] = entry, home
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
            for module in self._modules:
                import_module(module)
            points = entry_points(group=f"anchorfl.{self.kind.replace(' ', '_')}")
            self._elsewhere = {point.name: point for point in points}

    def names(self) -> list[str]:
        self._load()
        return list({**self._entries, **self._elsewhere})

    def __contains__(self, name: str) -> bool:
        """Whether it is registered and imported."""
        return name in self._entries

    def get(self, name: str, key: str | None = None) -> T:
        """The entry; an error names the key under which the user gave the name."""
        self._load()
        prefix, _, member = name.partition(":")
        if member and prefix in self._families:
            return self._families[prefix](member)
        if name in self._entries:
            return self._entries[name]
        if name in self._elsewhere:
            try:
                return self._entries.setdefault(name, self._elsewhere[name].load())
            except Exception as error:  # another package's code can raise anything
                place = self._elsewhere[name].value
                raise UserError(f"{self.kind} '{name}': {place} cannot be loaded ({error})") from None
        if is_in_a_file(name):
            raise UserError(
                f"{self.kind} '{name}' is code, which is imported only if you trust it: add --trust"
            )
        given = f"{key}={name}: unknown {self.kind}" if key else f"unknown {self.kind} '{name}'"
        known = self.names()
        raise UserError(f"{given}{suggestion(name, known)} (known: {', '.join(known)})")
