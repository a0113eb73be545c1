"""The server: a task goes to every site, uploads come back, and are fused as those in files are."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from flwr.app import Context, Message
from flwr.serverapp import Grid, ServerApp

from anchorfl.errors import UserError
from anchorfl.messages import Task, site_of
from anchorfl.prepare import Setup
from anchorfl.statistics import exchanges
from anchorfl.transport.flower_messages import packed, unpacked
from anchorfl.transport.server_files import fuse_files, request_of

app = ServerApp()
SECONDS_BETWEEN_LOOKS, SECONDS_FOR_A_NAME = 0.5, 60.0


@app.main()
def main(grid: Grid, context: Context) -> None:
    words = context.run_config
    names = [name.strip() for name in str(words["sites"]).split(",") if name.strip()]
    out = Path(str(words["out"]))
    exchange = Exchange(grid, Path(str(words["task"])).read_bytes(), names, out)
    files = exchange.uploads()
    if exchanges(exchange.task.needs) == 2:
        files = exchange.answers(files)
    fused = fuse_files(exchange.task, files, out)
    for warning in [*exchange.lost, *fused.run.summary.warnings]:
        print(f"anchorfl: {warning}", flush=True)
    print(f"anchorfl: fused {', '.join(fused.uploads)} into {fused.run.folder}", flush=True)


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
        self.server = Setup.of(self.task).config.server
        self.kept = self.out.with_name(f"{self.out.name}.uploads")
        self.kept.mkdir(parents=True, exist_ok=True)

    def uploads(self) -> list[Path]:
        """One per site that is there and answers in time."""
        self.meet()
        self.missing(self.nodes)
        files = self.ask(list(self.nodes), "train", "upload", task=self.data)
        self.missing(files)
        return list(files.values())

    def meet(self) -> None:
        """Learn which node is which site, until all are there or the time is up."""
        ends = time.monotonic() + self.server.timeout
        seen: set[int] = set()
        while len(self.nodes) < len(self.names) and time.monotonic() < ends:
            new = [node for node in self.grid.get_node_ids() if node not in seen]
            for node, name in self.introduced(new, min(ends - time.monotonic(), SECONDS_FOR_A_NAME)):
                seen.add(node)
                if name not in self.names:
                    self.lost.append(f"node {node}: is called {name[:40]!r}, which nobody expects")
                elif name in self.nodes:
                    self.lost.append(f"node {node}: is called {name}, as node {self.nodes[name]} is")
                else:
                    self.nodes[name] = node
            time.sleep(SECONDS_BETWEEN_LOOKS)

    def introduced(self, nodes: Sequence[int], seconds: float) -> Iterator[tuple[int, str]]:
        messages = [Message(packed(), dst_node_id=node, message_type="query.name") for node in nodes]
        for reply in self.grid.send_and_receive(messages, timeout=max(seconds, 1.0)) if nodes else ():
            node = reply.metadata.src_node_id
            if reply.has_error():
                self.lost.append(f"node {node}: {reply.error.reason}")
                continue
            with suppress(UserError):
                yield node, unpacked(reply.content, "name").decode(errors="replace")

    def answers(self, uploads: list[Path]) -> list[Path]:
        """The second exchange; asked again without those who are silent, as all answer one request."""
        while True:
            request, received = request_of(self.task, None, uploads)
            sites = list(received.uploads)
            parts = {"task": self.data, "request": request.to_bytes()}
            files = self.ask(sites, "query.describe", "answer", **parts)
            self.missing(files)
            uploads = [self.kept / f"{name}.upload" for name in files]
            if set(files) == set(sites):
                return [*uploads, *files.values()]

    def ask(self, names: Sequence[str], kind: str, wanted: str, **parts: bytes) -> dict[str, Path]:
        """What came back in time, a file per site; why anything else is none of these."""
        content, sites = packed(**parts), {self.nodes[name]: name for name in names}
        messages = [Message(content, dst_node_id=node, message_type=kind) for node in sites]
        files = {}
        for reply in self.grid.send_and_receive(messages, timeout=self.server.timeout):
            name = sites.get(reply.metadata.src_node_id, "a site")  # the link itself reports the dead
            try:
                if reply.has_error():
                    raise UserError(reply.error.reason)
                data = unpacked(reply.content, wanted)
                if (found := site_of(data)) != name:
                    raise UserError(f"names another site, {found[:40]!r}")
            except UserError as error:
                self.lost.append(f"{name}: {error}")
                continue
            files[name] = self.kept / f"{name}.{wanted}"
            files[name].write_bytes(data)
        return files

    def missing(self, present: Mapping[str, object]) -> None:
        """Go on with those who are there, if `server.min_sites` of them are; else name who is not."""
        absent = [name for name in self.names if name not in present]
        needed = self.server.min_sites
        said = f"no answer from {', '.join(absent)}" if absent else "all sites answered"
        if len(present) < needed:
            why = "; ".join([said, *self.lost])
            raise UserError(f"{len(present)} of {needed} sites that server.min_sites asks for: {why}")
        if absent and said not in self.lost:
            self.lost.append(said)
