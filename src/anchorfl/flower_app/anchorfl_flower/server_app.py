"""The server: a task goes to every site, uploads come back, and are fused as those in files are."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from flwr.app import Context, Message
from flwr.serverapp import Grid, ServerApp

from anchorfl.engine import fuse_files, request_of
from anchorfl.engine.flower_messages import packed, unpacked
from anchorfl.errors import UserError
from anchorfl.wire import Description, Task, Upload

app = ServerApp()
SECONDS_BETWEEN_LOOKS = 0.5


@app.main()
def main(grid: Grid, context: Context) -> None:
    words = context.run_config
    names = [name.strip() for name in str(words["sites"]).split(",") if name.strip()]
    out = Path(str(words["out"]))
    exchange = Exchange(grid, Path(str(words["task"])).read_bytes(), names, out)
    files = exchange.uploads()
    if exchange.task.config.exchanges == 2:
        files = exchange.answers(files)
    run, received = fuse_files(exchange.task, files, out)
    for warning in [*exchange.lost, *received.refused]:
        print(f"anchorfl: {warning}", flush=True)
    print(f"anchorfl: fused {', '.join(received.sites)} into {run.folder}", flush=True)


@dataclass
class Exchange:
    """Messages with the sites named; what comes back is kept beside the model, a file per site."""

    grid: Grid
    data: bytes
    names: Sequence[str]
    out: Path
    nodes: dict[str, int] = field(default_factory=dict)
    lost: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.task = Task.from_bytes(self.data)
        self.kept = self.out.with_name(f"{self.out.name}.uploads")
        self.kept.mkdir(parents=True, exist_ok=True)

    def uploads(self) -> list[Path]:
        """One per site that answers in time."""
        options = self.task.config.server
        ends = time.monotonic() + options.timeout
        while len(nodes := list(self.grid.get_node_ids())) < len(self.names):
            if time.monotonic() > ends:
                break
            time.sleep(SECONDS_BETWEEN_LOOKS)
        files = self.ask(nodes, "train", ends - time.monotonic(), task=self.data)
        self.missing(files)
        return list(files.values())

    def answers(self, uploads: list[Path]) -> list[Path]:
        """The second exchange; asked again without those who are silent, as all answer one request."""
        while True:
            request, received = request_of(self.task, uploads)
            nodes = [self.nodes[name] for name in received.sites]
            parts = {"task": self.data, "request": request.to_bytes()}
            files = self.ask(nodes, "query.describe", self.task.config.server.timeout, **parts)
            self.missing(files)
            uploads = [self.kept / f"{name}.upload" for name in files]
            if set(files) == set(received.sites):
                return [*uploads, *files.values()]

    def ask(self, nodes: Sequence[int], kind: str, seconds: float, **parts: bytes) -> dict[str, Path]:
        """What came back in time, a file per site; why anything else is none of these."""
        content = packed(**parts)
        messages = [Message(content, dst_node_id=node, message_type=kind) for node in nodes]
        files = {}
        for reply in self.grid.send_and_receive(messages, timeout=max(seconds, 1.0)):
            node = reply.metadata.src_node_id
            if reply.has_error():
                self.lost.append(f"node {node}: {reply.error.reason}")
                continue
            try:
                name, data = self.opened(reply, kind)
            except UserError as error:
                self.lost.append(f"node {node}: {error}")
                continue
            files[name] = self.kept / f"{name}.{'upload' if kind == 'train' else 'answer'}"
            files[name].write_bytes(data)
            self.nodes[name] = node
        return files

    def opened(self, reply: Message, kind: str) -> tuple[str, bytes]:
        """The site that a reply names, and its bytes; admission comes later."""
        upload = kind == "train"
        data = unpacked(reply.content, "upload" if upload else "answer")
        name = (Upload.from_bytes(data) if upload else Description.from_bytes(data)).site
        if name not in self.names:
            raise UserError(f"names the site {name!r}; this run is for {', '.join(self.names)}")
        return name, data

    def missing(self, present: Mapping[str, Path]) -> None:
        """Go on with those who are there, if `server.min_sites` of them are; else name who is not."""
        absent = [name for name in self.names if name not in present]
        needed = self.task.config.server.min_sites
        said = f"no answer from {', '.join(absent)}" if absent else "all sites answered"
        if len(present) < needed:
            why = "; ".join([said, *self.lost])
            raise UserError(f"{len(present)} of {needed} sites that server.min_sites asks for: {why}")
        if absent and said not in self.lost:
            self.lost.append(said)
