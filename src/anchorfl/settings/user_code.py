"""Code of the user's own that settings name as FILE.py:NAME."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

from anchorfl.errors import UserError
from anchorfl.methods import METHODS, Method
from anchorfl.objective import BALANCES
from anchorfl.registry import Registry, imported, is_in_a_file


def import_named(settings: Mapping[str, object]) -> None:
    """Import the method, fusions and data set that are FILE.py:NAME; for the user's own words alone.

    A method is a `Method`, or a balance that is to pull prototypes to the shared anchors.
    """
    method = str(settings.get("method"))
    if is_in_a_file(method) and method not in METHODS:
        found = imported(method, "method")
        if not isinstance(found, Method):
            if not hasattr(found, "readings"):
                raise UserError(f"method={method}: is neither a Method nor a Balance")
            BALANCES.register(method)(found)
            found = Method(summary=str(found.__doc__).split("\n")[0], balance=method)
        METHODS.register(method)(found)
    for name in listed_fusions(settings.get("fusion")):
        if is_in_a_file(name):
            from anchorfl.fusion import FUSIONS

            register_own(FUSIONS, "fusion", name, "head")
    data = str(settings.get("data.name"))
    if is_in_a_file(data):
        from anchorfl.data import DATASETS

        register_own(DATASETS, "data.name", data, "reader")


def register_own(registry: Registry[Any], key: str, name: str, attribute: str) -> None:
    """Import it, once; what it is shows in an attribute that all of its kind have."""
    if name not in registry:
        found = imported(name, key)
        if not hasattr(found, attribute):
            raise UserError(f"{key}={name}: is no {registry.kind}, which has a {attribute}")
        registry.register(name)(found)


def own_code(settings: Mapping[str, object]) -> dict[str, str]:
    """The hash of each FILE.py that settings name and that is there, by its name."""
    models = str(settings.get("model.name")).split(",")
    words = [str(settings.get("method")), str(settings.get("data.name"))]
    names = [*words, *listed_fusions(settings.get("fusion")), *models]
    return hashes({name.strip().rpartition(":")[0] for name in names if is_in_a_file(name)})


def changed_code(content: Mapping[str, object]) -> list[str]:
    """Files that a run's config.yaml names by a hash, and that are not what they were."""
    stored = content.get("code")
    known = stored if isinstance(stored, dict) else {}
    return [file for file, now in hashes(map(str, known)).items() if now != known[file]]


def hashes(files: Iterable[str]) -> dict[str, str]:
    """The SHA-256 of those files that are there."""
    found = {file: Path(file).expanduser() for file in sorted(files)}
    return {
        file: sha256(path.read_bytes()).hexdigest() for file, path in found.items() if path.is_file()
    }


def listed_fusions(names: object) -> list[str]:
    """`a,b` or [a, b] as a list, each once; none where nothing is named."""
    if names is None:
        return []
    words = names if isinstance(names, list | tuple) else str(names).split(",")
    listed = list(dict.fromkeys(word for each in words if (word := str(each).strip())))
    if not listed:
        raise UserError("fusion=: name at least one; anchorfl methods --fusions lists them")
    return listed
