"""A client on Flower's simulation runtime; between two messages Flower keeps its state."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import torch
from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from anchorfl.compute import using_threads
from anchorfl.data import ImageStore
from anchorfl.engine.federation import Federation
from anchorfl.engine.flower_messages import has, packed, unpacked
from anchorfl.engine.in_process import InProcess
from anchorfl.settings import flatten, resolve
from anchorfl.tensors import Tensors
from anchorfl.wire import Request, Task, pack, unpack

app = ClientApp()
STATE = "state"


@app.query("number")
def tell_number(message: Message, context: Context) -> Message:
    """Which client this node is."""
    return Message(packed(number=str(number_of(context)).encode()), reply_to=message)


@app.train()
def train(message: Message, context: Context) -> Message:
    """A round; its report comes back, and what it leaves stays with the node."""
    content = message.content
    if has(content, STATE):
        keep(context, unpacked(content, STATE))
    with alone(message, context) as (engine, later):
        if has(context.state, STATE):
            engine.restore({number_of(context): kept(context)})
        if later is not None:
            engine.send(later)
        reports = list(engine.train(int(unpacked(content, "round")), lambda event: None))
        state = pack(STATE, {}, engine.checkpoint()[number_of(context)])
    keep(context, state)
    parts = {"report": reports[0].to_bytes()} if reports else {}
    return Message(packed(**parts), reply_to=message)


@app.query("upload")
def upload(message: Message, context: Context) -> Message:
    with settled(message, context) as engine:
        (made,) = engine.uploads()
    return Message(packed(upload=made.to_bytes()), reply_to=message)


@app.query("describe")
def describe(message: Message, context: Context) -> Message:
    request = Request.from_bytes(unpacked(message.content, "request"))
    with settled(message, context) as engine:
        (made,) = engine.describe(request)
    return Message(packed(answer=made.to_bytes()), reply_to=message)


@app.query("state")
def tell_state(message: Message, context: Context) -> Message:
    return Message(packed(state=unpacked(context.state, STATE)), reply_to=message)


@contextmanager
def settled(message: Message, context: Context) -> Iterator[InProcess]:
    """As the client's last round left it."""
    with alone(message, context) as (engine, later):
        if later is not None:
            engine.send(later)
        if has(context.state, STATE):
            engine.restore({number_of(context): kept(context)})
        yield engine


@contextmanager
def alone(message: Message, context: Context) -> Iterator[tuple[InProcess, Task | None]]:
    """An engine with this client and no other, and the task of a later round, if there is one."""
    federation, store = prepared(unpacked(message.content, "settings").decode())
    number, model = number_of(context), federation.config.model.name
    code = model if model is not None and ":" in model else None
    owns = [own if k == number else own[:0] for k, own in enumerate(federation.partition.clients)]
    with using_threads(federation.config.general.threads or torch.get_num_threads()):
        engine = InProcess(owns, store, store, federation.device, federation.sites)
        engine.send(Task.from_bytes(unpacked(message.content, "first"), code))
        later = Task.from_bytes(unpacked(message.content, "task"), code)
        yield engine, later if later.round else None
        engine.close()


@cache
def prepared(settings: str) -> tuple[Federation, ImageStore]:
    """The data and their draw, once per process."""
    words = flatten(json.loads(settings))
    federation = Federation.prepare(resolve(str(words.pop("method")), words))
    return federation, ImageStore(federation.dataset.train, federation.device)


def number_of(context: Context) -> int:
    return int(str(context.node_config["partition-id"]))


def keep(context: Context, state: bytes) -> None:
    context.state = packed(state=state)


def kept(context: Context) -> Tensors:
    return unpack(STATE, unpacked(context.state, STATE))[1]
