"""The predictor of a run: its primary fusion, from what the clients sent."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import replace

import torch

from anchorfl.config import Config
from anchorfl.data import ImageFacts
from anchorfl.engine import FusedAgain, facts_of, start_of, uploads_of
from anchorfl.errors import UserError
from anchorfl.models import public_name
from anchorfl.predictor.familiarity import familiarity_of
from anchorfl.predictor.module import Card, Predictor, describer_in
from anchorfl.registry import DATASETS
from anchorfl.runs import Run
from anchorfl.server import believed, runners_for, server_view
from anchorfl.tensors import Tensors, prefixed
from anchorfl.wire import Start, Upload, complete, digest, shared_settings

CPU = torch.device("cpu")


def predictor_of(run: Run) -> Predictor:
    """Of a finished run, on the CPU and in fp32."""
    summary = run.require_end().summary
    config = run.vouched(run.config)
    facts, uploads = facts_of(run), uploads_of(run, CPU)
    temperature = (summary.temperature or {}).get(next(iter(config.fusion)))
    start, names = start_of(run), summary.class_names or []
    return build_predictor(config, facts, uploads, names, temperature, start)


def predictor_again(run: Run, found: FusedAgain) -> Predictor:
    """Of a run's uploads as they were fused again: with other rules, fewer sites or more."""
    name = next(iter(found.config.fusion))
    if name in found.missing:
        raise UserError(f"fusion {name}: {found.missing[name]}")
    here = complete(found.uploads, {each.network: each.frozen for each in found.uploads}, CPU)
    temperature = (run.summary.temperature or {}).get(name)
    names = run.summary.class_names or []
    return build_predictor(found.config, facts_of(run), here, names, temperature, start_of(run))


@torch.no_grad()
def build_predictor(
    config: Config,
    facts: ImageFacts,
    uploads: Sequence[Upload],
    class_names: Sequence[str],
    temperature: float | None = None,
    start: Start | None = None,
) -> Predictor:
    """The primary fusion of uploads as a module."""
    name, fusion = next(iter(config.fusion.items()))
    if fusion.transductive:
        raise UserError(f"fusion {name} scores an image by the others beside it: it makes no predictor")
    named = hash_of(config, uploads)
    config = replace(config, train=replace(config.train, precision="fp32", graphs=False))
    runners = runners_for(config, facts, CPU)
    uploads = believed(config, uploads).of(fusion)
    encoders = fusion.encoders(uploads)
    runners.evaluation_mode(encoders)
    view = server_view(config, facts, runners, start)
    head = fusion.head(uploads, encoders, view)
    places = {public_name(name): name for name in config.model.names}
    card = Card(
        model=str(config.model.name),
        models=[places.get(encoder.name, config.model.names[0]) for encoder in encoders],
        facts=facts,
        class_names=list(class_names),
        temperature=fusion.score_temperature if temperature is None else temperature,
        method=config.method,
        fusion=name,
        trained_on=config.data.name,
        terms=DATASETS.get(config.data.name).terms,
        start=None if start is None else start.hash,
        zoom=config.look.zoom,
        mirrored=config.look.mirrored,
        hash=named,
        holdout=config.data.holdout if all(each.site for each in uploads) else None,
    )
    networks = [deepcopy(runners[encoder.name].network) for encoder in encoders]
    filled = [
        network.fill(encoder.weights) for network, encoder in zip(networks, encoders, strict=True)
    ]
    familiarity = familiarity_of(uploads, view) if describer_in(head) else None
    return Predictor(filled, head, card, familiarity)


def hash_of(config: Config, uploads: Sequence[Upload]) -> str:
    """Of the settings and what was fused, not of the outcome, whose last digits are a machine's own."""
    tensors: Tensors = {}
    for number, each in enumerate(uploads):
        own = {"class_counts": each.class_counts, **each.trained, **each.statistics}
        tensors |= prefixed(str(number), own)
    origins = [[each.site, each.task] for each in uploads]
    return digest({"config": shared_settings(config), "uploads": origins}, tensors)
