"""Every key with its default, as the help page and the reference list them."""

from __future__ import annotations

from pathlib import Path

import pytest

from anchorfl.data import DATASETS
from anchorfl.fusion import FUSIONS
from anchorfl.methods import METHODS, Method
from anchorfl.report.keys import keys_by_methods, keys_help, set_by_data, set_by_method
from anchorfl.settings import align_keys, all_keys, flatten, preset_names, resolve
from tests.conftest import command


@pytest.fixture(scope="module")
def page() -> str:
    return keys_help()


def test_the_help_of_run_ends_with_every_key_of_every_method_fusion_and_preset(
    page: str, tmp_path: Path
) -> None:
    assert command("run", "--help", cwd=tmp_path).stdout.endswith(page)
    listed = {line.split()[0] for line in page.splitlines() if line.startswith("  ")}
    assert {key for name in METHODS.names() for key in all_keys(name)} <= listed
    assert "fusion.sketch-guided.guidance" in listed
    assert set(preset_names()) <= listed


def test_a_fusions_options_are_listed_with_their_defaults(page: str) -> None:
    assert FUSIONS.get("class-mean").q == 0.5
    assert "fusion.class-mean.q             0.5 " in page


def test_align_keys_stand_under_all_methods_that_have_them() -> None:
    for name in METHODS.names():
        own = [key.name for names, keys in keys_by_methods().items() if name in names for key in keys]
        assert sorted(own) == sorted(f"align.{key}" for key in align_keys(METHODS.get(name)))


def test_what_a_data_set_is_said_to_set_is_what_a_run_gets() -> None:
    said = set_by_data()
    assert said["digits"]["train.batch_size"] == 64
    assert said["cifar10"]["train.batch_size"] == 512
    for name in DATASETS.names():
        got = flatten(resolve("v4", {"data.name": name}).to_dict())
        assert said[name].items() <= got.items()
        assert None not in said[name].values()


@pytest.mark.parametrize("name", ["folder", "sites"])
def test_what_follows_from_ones_own_images_is_said_of_no_data_set(name: str) -> None:
    assert not {"model.name", "train.batch_size"} & set_by_data()[name].keys()


def test_a_default_that_is_not_everybodys_has_a_star(page: str) -> None:
    assert "train.batch_size       unset* " in page
    assert "align.lambda          5.0* " in page
    assert "train.lr               0.05  " in page


def test_a_method_shows_its_own_defaults_and_what_data_sets_set(tmp_path: Path) -> None:
    shown = command("methods", "v6", cwd=tmp_path).stdout
    for key, value in set_by_method()["v6"].items():
        assert f"{key}={str(value).lower()}" in shown
    assert "train.batch_size=64" in shown


def test_the_diary_is_compared_with_ours_on_its_own_data_set(tmp_path: Path) -> None:
    shown = command("methods", "v12", cwd=tmp_path).stdout
    (line,) = [line for line in shown.splitlines() if line.startswith("train.batch_size=256")]
    assert line.split()[1:] == ["ours", "512"]


def test_a_broken_method_of_another_package_stops_no_help(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(METHODS._entries, "broken", Method("lacks its balance", "nowhere"))
    assert "align.gamma" in keys_help()
