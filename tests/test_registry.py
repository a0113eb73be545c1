"""Another package's fusion is found through its entry point and used like our own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from anchorfl.errors import UserError
from anchorfl.registry import Registry

PLUGIN = '''
from dataclasses import dataclass

import torch
from anchorfl.fusion import Fusion, Head
from anchorfl.options import option


class NearestHead(Head):
    def __init__(self, prototypes, power):
        super().__init__()
        self.register_buffer("prototypes", prototypes)
        self.power = power

    def forward(self, features, images):
        return self.power * torch.einsum("knd,kcd->knc", features, self.prototypes).amax(dim=0)


@dataclass(frozen=True)
class Nearest(Fusion):
    """The best score that any client gives."""

    power: float = option(1.0, "how loud", above=0)

    def head(self, uploads, encoders, view):
        return NearestHead(torch.stack([upload.prototypes for upload in uploads]), self.power)
'''


def test_a_fusion_from_another_package_appears_by_itself(tmp_path: Path) -> None:
    (tmp_path / "plugin.py").write_text(PLUGIN)
    metadata = tmp_path / "plugin-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: plugin\nVersion: 1.0\n")
    points = "[anchorfl.fusion]\nnearest = plugin:Nearest\nbroken = no_such_module:Fusion\n"
    (metadata / "entry_points.txt").write_text(points)
    paths = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])

    def command(*words: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "anchorfl", *words],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": paths},
            capture_output=True,
            text=True,
            timeout=300,
        )
        return done.stdout + done.stderr

    assert "The best score that any client gives." in command("methods", "--fusions")
    words = ("fusion=nearest", "fusion.nearest.power=2", "out=run")
    assert "nearest (primary)" in command("run", "v4", "train.rounds=1", *words)
    assert "no_such_module:Fusion cannot be loaded" in command("run", "v4", "fusion=broken")
    assert "power: 2.0" in (tmp_path / "run/config.yaml").read_text()


def test_an_unknown_name_is_answered_with_the_nearest_and_all() -> None:
    registry: Registry[int] = Registry("number", "anchorfl")
    registry.register("three")(3)
    registry.register("four")(4)
    assert registry.get("three") == 3
    with pytest.raises(
        UserError, match=r"unknown number 'thre'; did you mean three\? \(known: three, four\)"
    ):
        registry.get("thre")


def test_a_member_of_a_family_is_made_when_asked_for_and_never_listed() -> None:
    table: Registry[str] = Registry("thing", "anchorfl.registry")
    table.register("plain")("a plain thing")
    table.family("made")(lambda name: f"made of {name}")
    assert table.get("made:wood") == "made of wood"
    assert table.names() == ["plain"]
    assert table.get("plain") == "a plain thing"
