"""All sites on Flower's simulation runtime: every value travels as bytes, sites side by side."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from flwr.app import Context, Message
from flwr.serverapp import Grid, ServerApp
from flwr.simulation import run_simulation

from anchorfl.config import Config
from anchorfl.errors import UserError
from anchorfl.events import BatchTrained, ClientRound, Listener
from anchorfl.loop import Engine
from anchorfl.messages import Description, Request, Task, Upload, pack, unpack
from anchorfl.tensors import Tensors
from anchorfl.transport.flower_client import app
from anchorfl.transport.flower_messages import has, packed, unpacked

T = TypeVar("T")


class OnFlower(Engine):
    """The sites that hold anything; a round is a message to each of them."""

    def __init__(
        self, grid: Grid, config: Config, holding: Sequence[int], names: Sequence[str]
    ) -> None:
        self.grid = grid
        self.settings = json.dumps(config.replace_general(out=None).to_dict()).encode()
        self.timeout, self.epochs = config.server.timeout, config.train.local_epochs
        self.saved: dict[str, Tensors] = {}
        self.first = self.task = b""
        self.names = names
        self.nodes = {node: node for node in all_nodes(grid, config.partition.clients)}
        numbers = {int(data): node for node, data in self.ask("query.number", "number").items()}
        self.nodes = {number: numbers[number] for number in holding}

    def send(self, task: Task) -> None:
        self.task = task.to_bytes()
        self.first = self.first or self.task

    def train(self, number: int, listen: Listener) -> Iterator[ClientRound]:
        parts = {
            place: {"state": pack("state", {}, self.saved[self.names[place]])}
            for place in self.nodes
            if self.saved
        }
        self.saved = {}
        reports = self.ask("train", "report", parts, round=str(number).encode())
        for place in sorted(reports):
            report = ClientRound.from_record(json.loads(reports[place]))
            listen(BatchTrained(number, place, report.samples * self.epochs))
            yield report

    def uploads(self) -> list[Upload]:
        made = self.ask("query.upload", "upload")
        return [Upload.from_bytes(data) for _, data in sorted(made.items())]

    def describe(self, request: Request) -> list[Description]:
        answers = self.ask("query.describe", "answer", request=request.to_bytes())
        return [Description.from_bytes(data) for _, data in sorted(answers.items())]

    def checkpoint(self) -> dict[str, Tensors]:
        states = self.ask("query.state", "state")
        return {self.names[place]: unpack("state", data)[1] for place, data in states.items()}

    def restore(self, saved: dict[str, Tensors]) -> None:
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
        """A part of every site's reply, by its number; a site that fails ends the run."""
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


def simulated(
    config: Config, holding: Sequence[int], names: Sequence[str], loop: Callable[[OnFlower], T]
) -> T:
    """What the loop returns, run as a ServerApp; Flower's own end and errors are looked through."""
    ended: list[Any] = []
    server = ServerApp()

    @server.main()
    def main(grid: Grid, context: Context) -> None:
        try:
            ended.append(loop(OnFlower(grid, config, holding, names)))
        except BaseException as error:
            ended.append(error)

    gpus = config.flower.gpus
    if gpus is None:
        gpus = 1 / len(holding) if str(config.general.device).startswith("cuda") else 0.0
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
