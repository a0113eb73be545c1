"""The command `anchorfl`: one file per group of commands."""

from anchorfl.cli.main import app, main

__all__ = ["app", "main"]
