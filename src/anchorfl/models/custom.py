"""An encoder by name or path, a user's own among them, and saved weights to start it from."""

from __future__ import annotations

from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import nn

from anchorfl.data import Shape
from anchorfl.errors import UserError, in_one_line
from anchorfl.models.batchnorm import adopt_batchnorm
from anchorfl.registry import ENCODERS, imported
from anchorfl.tensors import section


def build_encoder(name: str, shape: Shape) -> nn.Module:
    """A registered encoder, or `FILE.py:NAME` / `package.module:NAME`: NAME(shape) -> nn.Module."""
    factory = imported(name, "model.name") if ":" in name else ENCODERS.get(name, "model.name")
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
