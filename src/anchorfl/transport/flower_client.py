"""The one client app for Flower: a real site, or a node of its simulation runtime.

A real site trains to the end in a folder of its own when a task comes. What it is called, where its
images lie and what may leave it is its own: --node-config. A simulated one trains a round at a time, on
its part of a data set; between two messages Flower keeps its state.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path

import torch
from flwr.app import Context, Message, RecordDict
from flwr.clientapp import ClientApp

from anchorfl.compute import using_threads
from anchorfl.config import Config
from anchorfl.data import ImageStore, Partition, Shard, draw_partition, load_dataset
from anchorfl.errors import UserError
from anchorfl.events import as_record
from anchorfl.loop import InProcess
from anchorfl.messages import Request, Task, pack, unpack
from anchorfl.prepare import Setup
from anchorfl.settings import flatten, resolve
from anchorfl.site import Site
from anchorfl.transport.flower_messages import has, packed, unpacked
from anchorfl.transport.site_training import SiteOptions, describe_site, site_upload

app = ClientApp()
STATE = "state"
OWN = ("holdout", "encoder", "model", "telemetry", "counts", "device", "threads", "skip_bad")
KEYS = ("data", "name", "work", *OWN)


@app.query("name")
def tell_name(message: Message, context: Context) -> Message:
    """What this site is called, before anything is sent to it."""
    return Message(packed(name=options_of(context.node_config).name.encode()), reply_to=message)


@app.query("number")
def tell_number(message: Message, context: Context) -> Message:
    """Which simulated site this node is."""
    return Message(packed(number=str(number_of(context)).encode()), reply_to=message)


@app.train()
def train(message: Message, context: Context) -> Message:
    """All rounds, and the upload; of a simulated site one round, and its report."""
    if is_simulated(context):
        return Message(train_round(message, context), reply_to=message)
    node = context.node_config
    task = Task.from_bytes(unpacked(message.content, "task"))
    with place_to_work(node) as folder:
        trained = site_upload(task, options_of(node), folder / task.hash[:12])
    return Message(packed(upload=trained.upload.to_bytes()), reply_to=message)


@app.query("describe")
def describe(message: Message, context: Context) -> Message:
    """The second exchange."""
    request = Request.from_bytes(unpacked(message.content, "request"))
    if is_simulated(context):
        with site_as_kept(message, context) as site:
            answer = replace(site.describe(request), request=request.hash)
    else:
        task = Task.from_bytes(unpacked(message.content, "task"))
        answer, _ = describe_site(task, request, options_of(context.node_config))
    return Message(packed(answer=answer.to_bytes()), reply_to=message)


@app.query("upload")
def upload(message: Message, context: Context) -> Message:
    with site_as_kept(message, context) as site:
        made = site.upload().to_bytes()
    return Message(packed(upload=made), reply_to=message)


@app.query("state")
def tell_state(message: Message, context: Context) -> Message:
    return Message(packed(state=unpacked(context.state, STATE)), reply_to=message)


def options_of(node: Mapping[str, object]) -> SiteOptions:
    unknown = [key for key in node if key not in KEYS]
    if unknown or "data" not in node or "name" not in node:
        raise UserError(
            f"--node-config needs data='FOLDER' and name='SITE', and takes {', '.join(KEYS[2:])}"
        )
    own = {key: value for key, value in node.items() if key in OWN}
    return SiteOptions(Path(str(node["data"])), str(node["name"]), **own)  # type: ignore[arg-type]


@contextmanager
def place_to_work(node: Mapping[str, object]) -> Iterator[Path]:
    """The site's own folder, in which a training that was cut off resumes; else one for this run."""
    if "work" in node:
        yield Path(str(node["work"]))
        return
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


def is_simulated(context: Context) -> bool:
    return "partition-id" in context.node_config


def number_of(context: Context) -> int:
    return int(str(context.node_config["partition-id"]))


def train_round(message: Message, context: Context) -> RecordDict:
    """What the round leaves stays with the node."""
    content = message.content
    if has(content, STATE):
        context.state = packed(state=unpacked(content, STATE))
    with engine_of(message, context) as (engine, later):
        if has(context.state, STATE):
            engine.restore(kept(context, engine))
        if later is not None:
            engine.send(later)
        reports = list(engine.train(int(unpacked(content, "round")), lambda event: None))
        (state,) = engine.checkpoint().values()
    context.state = packed(state=pack(STATE, {}, state))
    return packed(**({"report": json.dumps(as_record(reports[0])).encode()} if reports else {}))


@contextmanager
def site_as_kept(message: Message, context: Context) -> Iterator[Site]:
    """As the site's last round left it."""
    with engine_of(message, context) as (engine, later):
        if later is not None:
            engine.send(later)
        if has(context.state, STATE):
            engine.restore(kept(context, engine))
        yield engine.sites[0]


def kept(context: Context, engine: InProcess) -> dict[str, dict[str, torch.Tensor]]:
    return {engine.sites[0].name: unpack(STATE, unpacked(context.state, STATE))[1]}


@contextmanager
def engine_of(message: Message, context: Context) -> Iterator[tuple[InProcess, Task | None]]:
    """An engine with this site and no other, and the task of a later round, if there is one."""
    config, partition, store, names = prepared(unpacked(message.content, "settings").decode())
    number = number_of(context)
    places = [own if k == number else own[:0] for k, own in enumerate(partition.clients)]
    first = Task.from_bytes(unpacked(message.content, "first"))
    setup = Setup(first, replace(config, needs=first.needs))
    with using_threads(config.general.threads or torch.get_num_threads()):
        shard, device = Shard(store, torch.arange(0)), store.device
        engine = InProcess(setup, places, store, shard, device, names)
        later = Task.from_bytes(unpacked(message.content, "task"))
        yield engine, later if later.round else None
        engine.close()


@cache
def prepared(settings: str) -> tuple[Config, Partition, ImageStore, list[str]]:
    """The experiment, the data and their draw, once per process."""
    words = flatten(json.loads(settings))
    config = resolve(str(words.pop("method")), words, needs=())
    dataset = load_dataset(config.data)
    labels, sites = dataset.train.labels, dataset.train.sites
    validation = config.data.validation
    partition = draw_partition(labels, config.partition, validation, dataset.name, sites)
    names = sites.names if config.partition.kind == "sites" and sites is not None else []
    return config, partition, ImageStore(dataset.train, torch.device(config.general.device)), names
