"""Commands whose help is plain text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import typer
from typer.core import TyperCommand

F = TypeVar("F", bound=Callable[..., Any])


class PlainCommand(TyperCommand):
    """Typer escapes brackets, as in `[required]`, even where no markup is read."""

    def get_help(self, ctx: Any) -> str:
        return super().get_help(ctx).replace("\\[", "[")


class Commands(typer.Typer):
    """A group of plain commands; without a command it shows its help."""

    def __init__(self, help: str, **options: Any) -> None:
        super().__init__(help=help, no_args_is_help=True, rich_markup_mode=None, **options)

    def command(self, name: str | None = None, **options: Any) -> Callable[[F], F]:
        return super().command(name, **{"cls": PlainCommand, **options})
