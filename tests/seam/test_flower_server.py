"""The server's half on Flower, with a grid of our own: who is there, who answers, and what."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from anchorfl.errors import UserError
from anchorfl.messages import Task, pack, unpack
from anchorfl.runs import read_run
from anchorfl.transport.site_training import SiteOptions, site_upload
from tests.conftest import command
from tests.seam.test_files import place, told

pytest.importorskip("flwr")
from flwr.app import RecordDict

from anchorfl.transport import flower_client, flower_server
from anchorfl.transport.flower_messages import packed, unpacked

__all__ = ["place"]
NAMES = ["north", "south", "west"]
LINK = 1
"""The link's own number, under which it reports a node that died."""


@dataclass
class Grid:
    """Nodes that answer as they are told to; a node without an answer is silent."""

    answers: dict[int, dict[str, Any]]
    asked: list[tuple[str, list[int], float]] = field(default_factory=list)

    def get_node_ids(self) -> list[int]:
        return list(self.answers)

    def send_and_receive(self, messages: list[Any], timeout: float) -> list[Any]:
        kind = messages[0].metadata.message_type
        nodes = [message.metadata.dst_node_id for message in messages]
        self.asked.append((kind, nodes, timeout))
        found = []
        for node in nodes:
            content = self.answers[node].get(kind)
            if content == "dead":
                found.append(
                    SimpleNamespace(
                        metadata=SimpleNamespace(src_node_id=LINK),
                        error=SimpleNamespace(reason="Node Unavailable"),
                        has_error=lambda: True,
                    )
                )
            elif content is not None:
                about = SimpleNamespace(src_node_id=node)
                found.append(SimpleNamespace(metadata=about, content=content, has_error=lambda: False))
        return found


@pytest.fixture(autouse=True)
def no_run_of_flowers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its messages can be made within a run alone."""

    def message(content: RecordDict, dst_node_id: int, message_type: str) -> SimpleNamespace:
        about = SimpleNamespace(dst_node_id=dst_node_id, message_type=message_type)
        return SimpleNamespace(content=content, metadata=about)

    monkeypatch.setattr(flower_server, "Message", message)


def named(name: str, upload: RecordDict | None = None) -> dict[str, Any]:
    return {"query.name": packed(name=name.encode()), "train": upload}


@pytest.fixture(scope="module")
def uploads(place: Path) -> dict[str, RecordDict]:
    here = place / "grid"
    here.mkdir()
    (here / "x.yaml").write_text(
        "method: v4\ndata: {name: sites, size: 8, flip: false}\ntrain: {rounds: 1, batch_size: 64}\n"
        "fusion: sketch-guided\nserver: {min_sites: 2, timeout: 1.5}\n"
    )
    told(here, "task", "new", "x.yaml", "../classes.txt", "-o", "task.safetensors", "--grey")
    task = Task.from_bytes((here / "task.safetensors").read_bytes())
    found = {}
    for name in NAMES:
        site = SiteOptions(place / "sites" / name, name, device="cpu", threads=1)
        upload = site_upload(task, site, here / f"{name}.training").upload
        found[name] = packed(upload=upload.to_bytes())
    return found


def run(place: Path, grid: Grid, out: Path) -> None:
    words = {
        "task": str(place / "grid" / "task.safetensors"),
        "sites": ",".join(NAMES),
        "out": str(out),
    }
    flower_server.main(grid, SimpleNamespace(run_config=words))


def test_a_site_that_never_connects_costs_the_others_no_time(
    place: Path, uploads: dict[str, RecordDict], tmp_path: Path
) -> None:
    grid = Grid({1: named("north", uploads["north"]), 2: named("west", uploads["west"])})
    run(place, grid, tmp_path / "model")
    assert read_run(tmp_path / "model").summary.sites == ["north", "west"]
    kind, nodes, timeout = grid.asked[-1]
    assert (kind, nodes, timeout) == ("train", [1, 2], 1.5)


def test_the_link_itself_reports_a_site_that_died(
    place: Path, uploads: dict[str, RecordDict], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dead = {"query.name": packed(name=b"south"), "train": "dead"}
    grid = Grid({5: named("north", uploads["north"]), 6: dead, 7: named("west", uploads["west"])})
    run(place, grid, tmp_path / "model")
    assert read_run(tmp_path / "model").summary.sites == ["north", "west"]
    shown = capsys.readouterr().out
    assert "a site: Node Unavailable" in shown
    assert "no answer from south" in shown


def test_bad_replies_second_names_and_strangers_are_passed_over(
    place: Path, uploads: dict[str, RecordDict], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    grid = Grid(
        {
            1: named("north", uploads["north"]),
            2: named("north", uploads["south"]),
            3: named("stranger", uploads["south"]),
            4: named("south", packed(other=b"x")),
            5: named("west", uploads["west"]),
        }
    )
    run(place, grid, tmp_path / "model")
    assert read_run(tmp_path / "model").summary.sites == ["north", "west"]
    shown = capsys.readouterr().out
    assert "node 2: is called north, as node 1 is" in shown
    assert "node 3: is called 'stranger'" in shown
    assert "south: contains no upload" in shown
    assert "no answer from south" in shown


def test_an_upload_in_anothers_name_is_refused(
    place: Path, uploads: dict[str, RecordDict], tmp_path: Path
) -> None:
    grid = Grid({1: named("north", uploads["west"]), 2: named("west", uploads["west"])})
    with pytest.raises(UserError, match=r"1 of 2 sites .* names another site, 'west'"):
        run(place, grid, tmp_path / "model")


def test_a_tasks_hash_cannot_name_a_folder_of_the_site(place: Path, uploads: object) -> None:
    content, tensors = unpack("task", (place / "grid" / "task.safetensors").read_bytes())
    with pytest.raises(UserError, match="hash is none"):
        Task.from_bytes(pack("task", {**content, "hash": "../../.ssh/x"}, tensors))


@pytest.mark.parametrize(
    ("config", "match"),
    [
        ({"name": "north"}, "needs data="),
        ({"data": "x", "name": "north", "colour": 1}, "needs data="),
        ({"data": "x", "name": "north", "telemetry": "false"}, "true or false, without quotes"),
        ({"data": "x", "name": "north", "threads": "2"}, "a whole number"),
        ({"data": "x", "name": "north", "holdout": "0.1"}, "a share such as"),
    ],
)
def test_what_a_site_says_of_itself_is_checked(config: dict[str, Any], match: str) -> None:
    with pytest.raises(UserError, match=match):
        flower_client.options_of(config)


@pytest.mark.parametrize(
    ("words", "match"),
    [(("--sites", "a,a"), "different names"), (("--sites", "a/b,c"), "different names")],
)
def test_a_wrong_command_ends_before_anybody_trains(
    place: Path, uploads: object, words: tuple[str, ...], match: str
) -> None:
    done = command("server", "flower", "task.safetensors", *words, "-o", "m", cwd=place / "grid")
    assert done.returncode == 2
    assert match in done.stderr


def test_parts_travel_as_they_are() -> None:
    assert unpacked(packed(a=b"xyz", b=b""), "a") == b"xyz"
