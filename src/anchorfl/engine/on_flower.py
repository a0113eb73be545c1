"""All sites on Flower's simulation runtime: every value travels as bytes, clients side by side."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from flwr.app import Context, Message
from flwr.serverapp import Grid, ServerApp
from flwr.simulation import run_simulation

from anchorfl.config import Config
from anchorfl.engine.engine import Engine
from anchorfl.engine.events import BatchTrained, Event
from anchorfl.engine.flower_client import app
from anchorfl.engine.flower_messages import has, packed, unpacked
from anchorfl.errors import UserError
from anchorfl.registry import is_in_a_file
from anchorfl.tensors import Tensors
from anchorfl.wire import ClientRound, Description, Request, Task, Upload, pack, unpack

T = TypeVar("T")


class OnFlower(Engine):
    """Clients that hold anything, by number; a round is a message to each of them."""

    def __init__(self, grid: Grid, config: Config, clients: Sequence[int]) -> None:
        self.grid = grid
        self.settings = json.dumps(config.replace_general(out=None).to_dict()).encode()
        self.timeout, self.epochs = config.server.timeout, config.train.local_epochs
        self.saved: dict[int, Tensors] = {}
        self.first = self.task = b""
        self.nodes = {node: node for node in all_nodes(grid, config.partition.clients)}
        numbers = {int(data): node for node, data in self.ask("query.number", "number").items()}
        self.nodes = {number: numbers[number] for number in clients}

    def send(self, task: Task) -> None:
        self.task = task.to_bytes()
        self.first = self.first or self.task

    def train(self, number: int, listen: Callable[[Event], None]) -> Iterator[ClientRound]:
        parts = {n: {"state": pack("state", {}, own)} for n, own in self.saved.items()}
        self.saved = {}
        reports = self.ask("train", "report", parts, round=str(number).encode())
        for client in sorted(reports):
            report = ClientRound.from_bytes(reports[client])
            listen(BatchTrained(number, client, report.samples * self.epochs))
            yield report

    def uploads(self) -> list[Upload]:
        made = self.ask("query.upload", "upload")
        return [Upload.from_bytes(data) for _, data in sorted(made.items())]

    def describe(self, request: Request) -> list[Description]:
        answers = self.ask("query.describe", "answer", request=request.to_bytes())
        return [Description.from_bytes(data) for _, data in sorted(answers.items())]

    def checkpoint(self) -> dict[int, Tensors]:
        return {n: unpack("state", data)[1] for n, data in self.ask("query.state", "state").items()}

    def restore(self, saved: dict[int, Tensors]) -> None:
        self.saved = saved

    def close(self) -> None:
        """The runtime ends its nodes itself."""

    def ask(
        self,
        kind: str,
        wanted: str,
        each: dict[int, dict[str, bytes]] | None = None,
        **parts: bytes,
    ) -> dict[int, bytes]:
        """A part of every client's reply, by client; a client that fails ends the run."""
        known = {"settings": self.settings, "first": self.first, "task": self.task}
        numbers = {node: number for number, node in self.nodes.items()}
        messages = [
            Message(
                packed(**known, **parts, **(each or {}).get(number, {})),
                dst_node_id=node,
                message_type=kind,
            )
            for number, node in self.nodes.items()
        ]
        found = {}
        for reply in self.grid.send_and_receive(messages, timeout=self.timeout):
            if reply.has_error():
                who = numbers.get(reply.metadata.src_node_id, "?")
                raise UserError(f"engine=flower: client {who}: {reply.error.reason}")
            number = numbers[reply.metadata.src_node_id]
            if has(reply.content, wanted):
                found[number] = unpacked(reply.content, wanted)
            numbers.pop(reply.metadata.src_node_id)
        if numbers:
            late = ", ".join(str(number) for number in sorted(numbers.values()))
            raise UserError(f"engine=flower: no answer in {self.timeout:.0f} s from clients {late}")
        return found


def all_nodes(grid: Grid, count: int) -> list[int]:
    """The runtime brings its nodes up beside the server."""
    while len(found := list(grid.get_node_ids())) < count:
        time.sleep(0.1)
    return found


def simulated(config: Config, clients: Sequence[int], loop: Callable[[Engine], T]) -> T:
    """What the loop returns, run as a ServerApp; Flower's own end and errors are looked through."""
    if config.train.evaluate_inside:
        raise UserError("engine=flower: train.evaluate_inside is measured in one process alone")
    for name in (config.method, config.data.name, *config.fusion):
        if is_in_a_file(name):
            raise UserError(
                f"engine=flower: {name} must be installed as a package, where sites find it"
            )
    ended: list[Any] = []
    server = ServerApp()

    @server.main()
    def main(grid: Grid, context: Context) -> None:
        try:
            ended.append(loop(OnFlower(grid, config, clients)))
        except BaseException as error:
            ended.append(error)

    gpus = config.flower.gpus
    if gpus is None:
        gpus = 1 / len(clients) if str(config.general.device).startswith("cuda") else 0.0
    resources: dict[str, Any] = {"num_cpus": config.flower.cpus, "num_gpus": gpus}
    quiet: dict[str, Any] = {
        "include_dashboard": False,
        "log_to_driver": False,
        "configure_logging": False,
    }
    try:
        run_simulation(
            server,
            app,
            config.partition.clients,
            backend_config={"client_resources": resources, "init_args": quiet},
        )
    except BaseException as error:
        if interrupted(error):
            raise KeyboardInterrupt from None
        if not ended:
            raise
    if not ended:
        raise UserError("engine=flower: the simulation ended before the run did")
    result: T | BaseException = ended[0]
    if isinstance(result, BaseException):
        raise result
    return result


def interrupted(error: BaseException | None) -> bool:
    """Whether Ctrl-C is behind it: what is being shut down may raise errors of its own on top."""
    while error is not None and not isinstance(error, KeyboardInterrupt | SystemExit):
        error = error.__context__
    return error is not None
