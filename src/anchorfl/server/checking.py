"""Whether an experiment can be fused as it asks for."""

from __future__ import annotations

from anchorfl.config import Config
from anchorfl.errors import UserError
from anchorfl.fusion import FUSIONS, SKETCH, Fusion, built_fusions
from anchorfl.methods import METHODS, Method
from anchorfl.server.halves import SERVER_HALVES
from anchorfl.statistics import STATISTICS


def check_experiment(config: Config) -> None:
    """Refuse what could only fail after training."""
    for need in config.needs:
        STATISTICS.get(need)
    fusions, names = built_fusions(config.fusion), ",".join(config.fusion)
    primary = next(iter(fusions))
    if fusions[primary].transductive:
        raise UserError(
            f"fusion={names}: {primary} scores an image by the others beside it, so"
            " it can be evaluated but makes no model; name another fusion first"
        )
    method = METHODS.get(config.method)
    for name, fusion in fusions.items():
        if not method.trains and fusion.reads != SKETCH:
            raise UserError(
                f"fusion={names}: {name} needs encoders, and method {config.method} trains none;"
                " use sketch-lda"
            )
    if len(config.model.names) > 1:
        check_mix(config, method, fusions)


def check_mix(config: Config, method: Method, fusions: dict[str, Fusion]) -> None:
    """Different encoders: refused where weights or features of unlike networks would be added."""
    given = f"model.name={config.model.name}"
    if config.target is not None and config.target.needs_public:
        raise UserError(f"{given}: method {config.method} has one bank for all, of one encoder")
    if method.server is not None and not SERVER_HALVES.get(method.server).mixes:
        raise UserError(f"{given}: method {config.method} sends one model or one set of means to all")
    apart = [name for name, fusion in fusions.items() if not fusion.mixes]
    if apart:
        able = ", ".join(name for name in FUSIONS.names() if FUSIONS.get(name).mixes)
        raise UserError(
            f"fusion={','.join(config.fusion)}: {apart[0]} adds features or weights of all clients,"
            f" which different encoders do not allow; use some of {able}"
        )
