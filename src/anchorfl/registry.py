"""Things known by name, and the table of every kind of them.

Each kind can be added to from another package, through the entry point group `anchorfl.KIND`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from anchorfl.errors import UserError, in_one_line

if TYPE_CHECKING:
    from anchorfl.data import DatasetSpec, PartitionKind
    from anchorfl.engine import Listener, ListenerFactory
    from anchorfl.methods import Method
    from anchorfl.models import EncoderFactory
    from anchorfl.objective import AlignTarget, Balance, BaseTerm, Schedule
    from anchorfl.server import Fusion, ServerHalf
    from anchorfl.site import Statistic

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
        spec = spec_from_file_location(Path(place).stem, Path(place).expanduser())
        assert spec is not None
        assert spec.loader is not None
        module = module_from_spec(spec)
        with names_of_its_own(str(Path(place).expanduser().absolute())):
            spec.loader.exec_module(module)
        return getattr(module, attribute)
    except FileNotFoundError:
        raise UserError(f"{key}={name}: no such file") from None
    except TakenError as error:
        raise UserError(f"{key}={name}: {error}") from None
    except Exception as error:  # a user's own code can raise anything
        raise UserError(f"{key}={name}: {in_one_line(error)}") from None


class TakenError(Exception):
    """A file registers something under a name that stands for something else."""


@contextmanager
def names_of_its_own(file: str) -> Iterator[None]:
    """What the file registers may replace what it registered itself, and nothing else."""
    before = {registry: registry.entries() for registry in REGISTRIES}
    try:
        yield
    finally:
        taken = [name for registry, known in before.items() for name in registry.claim(file, known)]
        if taken:
            raise TakenError(f"registers {taken[0]}, a name that is taken; give yours another")


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
        self._files: dict[str, str] = {}
        self._loaded = False
        REGISTRIES.append(self)

    def entries(self) -> dict[str, T]:
        """All that is known so far, once this package's own are."""
        self._load()
        return dict(self._entries)

    def claim(self, file: str, before: Mapping[str, T]) -> Iterator[str]:
        """Note what the file has registered since; put back, and name, what was not its to replace."""
        for name, entry in list(self._entries.items()):
            if name in before and entry is before[name]:
                continue
            if name in before and name not in self._elsewhere and self._files.get(name) != file:
                self._entries[name] = before[name]
                yield f"{self.kind} '{name}'"
            else:
                self._files[name] = file

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
        if name not in self._entries and name in self._elsewhere:
            try:
                self._entries[name] = self._elsewhere[name].load()
            except Exception as error:  # another package's code can raise anything
                place = self._elsewhere[name].value
                raise UserError(f"{self.kind} '{name}': {place} cannot be loaded ({error})") from None
        if name not in self._entries and is_in_a_file(name):
            raise UserError(
                f"{self.kind} '{name}' is code, which is imported only if you trust it: add --trust"
            )
        if name not in self._entries:
            given = f"{key}={name}: unknown {self.kind}" if key else f"unknown {self.kind} '{name}'"
            known = ", ".join(self.names())
            raise UserError(f"{given}{suggestion(name, self.names())} (known: {known})")
        return self._entries[name]


METHODS: Registry[Method] = Registry("method", "anchorfl.methods")
BASE_TERMS: Registry[BaseTerm] = Registry("base term", "anchorfl.objective.base_terms")
ALIGN_TARGETS: Registry[type[AlignTarget]] = Registry("align target", "anchorfl.objective.targets")
BALANCES: Registry[type[Balance]] = Registry("balance", "anchorfl.objective.balance")
SCHEDULES: Registry[Schedule] = Registry("schedule", "anchorfl.objective.schedules")
DATASETS: Registry[DatasetSpec] = Registry("data set", "anchorfl.data.catalog")
PARTITIONS: Registry[PartitionKind] = Registry("partition kind", "anchorfl.data.draws")
ENCODERS: Registry[EncoderFactory] = Registry("model", "anchorfl.models.encoders")
STATISTICS: Registry[Statistic] = Registry("statistic", "anchorfl.site.statistics")
FUSIONS: Registry[type[Fusion]] = Registry("fusion", "anchorfl.server.fusion")
SERVER_HALVES: Registry[type[ServerHalf]] = Registry("server half", "anchorfl.server.halves")
TRACKERS: Registry[ListenerFactory] = Registry("tracker", "anchorfl.engine.trackers")
LISTENERS: Registry[ListenerFactory] = Registry("listener", "anchorfl.report.listener")
DISPLAYS: Registry[Callable[[], Listener | None]] = Registry("display", "anchorfl.report.progress")
