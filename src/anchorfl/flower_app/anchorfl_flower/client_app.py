"""A site: it trains on its own images when a task comes, and answers a second exchange.

What it is called, where its images lie and what may leave it is the site's own: --node-config.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from anchorfl.engine import SiteOptions, describe_site, read_site, site_upload
from anchorfl.engine.flower_messages import packed, unpacked
from anchorfl.errors import UserError
from anchorfl.wire import Request, Task

app = ClientApp()
OWN = ("holdout", "encoder", "telemetry", "counts", "device", "threads")
KEYS = ("data", "name", "work", "model", *OWN)


@app.query("name")
def tell_name(message: Message, context: Context) -> Message:
    """What this site is called, before anything is sent to it."""
    return Message(packed(name=options_of(context.node_config).name.encode()), reply_to=message)


@app.train()
def train(message: Message, context: Context) -> Message:
    node = context.node_config
    task = Task.from_bytes(unpacked(message.content, "task"), node.get("model"))
    with place_to_work(node) as folder:
        _, upload = site_upload(task, options_of(node), folder / task.hash[:12])
    return Message(packed(upload=upload), reply_to=message)


@app.query("describe")
def describe(message: Message, context: Context) -> Message:
    node = context.node_config
    site = options_of(node)
    task = Task.from_bytes(unpacked(message.content, "task"), node.get("model"))
    request = Request.from_bytes(unpacked(message.content, "request"))
    images, _ = read_site(task, site.data, site.holdout)
    answer = describe_site(task, request, site.name, images, site.encoder, site.device)
    return Message(packed(answer=answer.to_bytes()), reply_to=message)


def options_of(node: Mapping[str, object]) -> SiteOptions:
    unknown = [key for key in node if key not in KEYS]
    if unknown or "data" not in node or "name" not in node:
        raise UserError(
            f"--node-config needs data='FOLDER' and name='SITE', and takes {', '.join(KEYS[2:])}"
        )
    own = {key: value for key, value in node.items() if key in OWN}
    return SiteOptions(Path(str(node["data"])), str(node["name"]), **own)


@contextmanager
def place_to_work(node: Mapping[str, object]) -> Iterator[Path]:
    """The site's own folder, in which a training that was cut off goes on; else one for this run."""
    if "work" in node:
        yield Path(str(node["work"]))
        return
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)
