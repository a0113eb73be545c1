"""Code of the user's own that settings name as FILE.py:NAME."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

from anchorfl.errors import UserError
from anchorfl.methods import Method
from anchorfl.registry import BALANCES, DATASETS, FUSIONS, METHODS, imported, is_in_a_file


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
    for name in listed_fusions(settings.get("fusion", "")):
        if is_in_a_file(name) and name not in FUSIONS:
            found = imported(name, "fusion")
            if not hasattr(found, "head"):
                raise UserError(f"fusion={name}: is no Fusion")
            FUSIONS.register(name)(found)
    data = str(settings.get("data.name"))
    if is_in_a_file(data) and data not in DATASETS:
        found = imported(data, "data.name")
        if not hasattr(found, "reader"):
            raise UserError(f"data.name={data}: is no DatasetSpec")
        DATASETS.register(data)(found)


def own_code(settings: Mapping[str, object]) -> dict[str, str]:
    """The SHA-256 of each FILE.py that settings name and that is there, by its name."""
    models = str(settings.get("model.name")).split(",")
    words = [str(settings.get("method")), str(settings.get("data.name"))]
    names = [*words, *listed_fusions(settings.get("fusion", "")), *models]
    files = sorted({name.strip().rpartition(":")[0] for name in names if is_in_a_file(name)})
    found = {file: Path(file).expanduser() for file in files}
    return {
        file: sha256(path.read_bytes()).hexdigest() for file, path in found.items() if path.is_file()
    }


def listed_fusions(names: object) -> list[str]:
    words = names if isinstance(names, list | tuple) else str(names).split(",")
    return [str(name).strip() for name in words if str(name).strip()]
