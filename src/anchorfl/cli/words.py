"""What commands share: the words of an experiment, and whether a run's code is trusted."""

from typing import Annotated

import typer

Settings = Annotated[list[str] | None, typer.Argument(metavar="key=value ...", show_default=False)]
Trust = Annotated[
    bool, typer.Option("--trust", help="Import code that the run's folder names (FILE.py:NAME).")
]
