"""An encoder by name or path, a user's own among them, and saved weights to start it from."""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import nn

from anchorfl.data import Shape
from anchorfl.errors import UserError
from anchorfl.models.batchnorm import adopt_batchnorm
from anchorfl.models.encoders import EncoderFactory
from anchorfl.registry import ENCODERS
from anchorfl.tensors import section


def build_encoder(name: str, shape: Shape) -> nn.Module:
    """A registered encoder, or `FILE.py:NAME` / `package.module:NAME`: NAME(shape) -> nn.Module."""
    factory = imported(name) if ":" in name else ENCODERS.get(name, "model.name")
    try:
        encoder = factory(shape)
    except Exception as error:  # a user's own code can raise anything
        why = in_one_line(error)
        raise UserError(f"model.name={name}: fails when called with {shape}: {why}") from None
    if not isinstance(encoder, nn.Module):
        raise UserError(f"model.name={name}: returned {type(encoder).__name__}, not an nn.Module")
    return adopt_batchnorm(encoder)


def public_name(name: str) -> str:
    """How messages name an encoder: code of one's own by its last word, never by its place."""
    return f"code:{name.rpartition(':')[2]}" if ":" in name else name


def imported(name: str) -> EncoderFactory:
    """The attribute that `FILE.py:NAME` or `package.module:NAME` points at."""
    place, _, attribute = name.rpartition(":")
    try:
        if place.endswith(".py"):
            spec = importlib.util.spec_from_file_location(Path(place).stem, place)
            assert spec is not None
            assert spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
        else:
            module = importlib.import_module(place)
        factory: EncoderFactory = getattr(module, attribute)
    except FileNotFoundError:
        raise UserError(f"model.name={name}: no such file") from None
    except Exception as error:  # a user's own code can raise anything
        raise UserError(f"model.name={name}: {in_one_line(error)}") from None
    return factory


def in_one_line(error: Exception) -> str:
    """An exception in one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}"


def load_encoder(encoder: nn.Module, path: Path) -> None:
    """Start from saved encoder weights, or those in a run's upload; names and shapes must fit."""
    try:
        saved = load_file(path)
        uploaded = section(saved, "weights")
        if uploaded:
            own = {name for name in uploaded if name.startswith("encoder.")}
            saved = {name.removeprefix("encoder."): uploaded[name] for name in own}
        counters = {name for name in saved if name.endswith("num_batches_tracked")}
        encoder.load_state_dict({name: saved[name] for name in saved if name not in counters})
    except (OSError, SafetensorError) as error:
        raise UserError(f"model.weights={path}: cannot be read as safetensors ({error})") from None
    except RuntimeError as error:
        first = str(error).splitlines()[-1].strip()
        raise UserError(f"model.weights={path}: does not fit the encoder ({first})") from None
