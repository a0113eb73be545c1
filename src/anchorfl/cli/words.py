"""What commands share: the words of an experiment."""

from typing import Annotated

import typer

Settings = Annotated[list[str] | None, typer.Argument(metavar="key=value ...", show_default=False)]
