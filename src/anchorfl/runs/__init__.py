"""What a run leaves on disk, and its one reader. Nothing here imports torch."""

from anchorfl.runs.folder import (
    INCIDENTAL,
    RunFolder,
    folder_name,
    holds_anything,
    new_folder,
    put_aside,
    put_away,
)
from anchorfl.runs.numbers import NONE, counted, percent, quantity
from anchorfl.runs.run import Record, Run, read_run
from anchorfl.runs.summary import Summary

__all__ = [
    "INCIDENTAL",
    "NONE",
    "Record",
    "Run",
    "RunFolder",
    "Summary",
    "counted",
    "folder_name",
    "holds_anything",
    "new_folder",
    "percent",
    "put_aside",
    "put_away",
    "quantity",
    "read_run",
]
