"""Help is plain text, whatever typer makes of brackets."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from anchorfl.cli.main import app_of
from tests.conftest import command


def everything(found: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The words of every command and group."""
    yield words
    for name, member in getattr(found, "commands", {}).items():
        yield from everything(member, (*words, name))


@pytest.mark.parametrize("words", list(everything(typer.main.get_command(app_of()))), ids=" ".join)
def test_no_backslash_stands_before_a_bracket(tmp_path: Path, words: tuple[str, ...]) -> None:
    done = command(*words, "--help", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Usage: " in done.stdout
    assert "\\[" not in done.stdout


def test_what_must_be_given_and_what_it_may_be_is_shown(tmp_path: Path) -> None:
    shown = command("demo", "--help", cwd=tmp_path).stdout
    assert "[default: 25; x>=1]" in " ".join(shown.split())
    assert "[required]" in command("sweep", "--help", cwd=tmp_path).stdout
