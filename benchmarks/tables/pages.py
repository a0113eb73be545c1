"""The tables of docs/, made from the recorded runs, and those of docs/reference.md from the code.

    python -m benchmarks.tables           # write them into the pages
    python -m benchmarks.tables --check   # name the page where one differs

A table follows a line such as `<!-- table: v9-entropy -->`. Tables of words and formulas are marked
`<!-- text -->`, those whose runs left no record `<!-- no record -->`, and the page says so.
"""

from __future__ import annotations

import re
import sys

from benchmarks.tables import (
    choosing,
    deploy,
    fusion,
    lambdas,
    readme,
    reference,
    run_files,
    security,
    starts,
    study,
    sums,
)
from benchmarks.tables.figures import HERE, TABLES, Row

DOCS = HERE.parents[1] / "docs"
PAGES = (
    "../README.md",
    "study.md",
    "lambda.md",
    "fusion.md",
    "security.md",
    "deploy.md",
    "choosing.md",
    "reference.md",
)
MAKERS = (
    study,
    lambdas,
    fusion,
    starts,
    sums,
    security,
    deploy,
    choosing,
    readme,
    reference,
    run_files,
)
"""Imported for the tables that they keep."""


def markdown(rows: list[Row]) -> list[str]:
    head, *body = rows
    return [f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *body)]


MARK = re.compile(r"<!-- (table: (?P<name>[\w.-]+)|text|no record) -->")


def rebuilt(page: str) -> str:
    """A page with its tables made anew, also at a mark alone; a table without a mark is an error."""
    out: list[str] = []
    mark = None
    for line in page.splitlines():
        is_row = line.startswith("| ")
        if is_row and mark is None:
            raise ValueError(f"no mark stands before the table {line[:60]}")
        if not is_row or (mark and not mark["name"]):
            out.append(line)
        mark = mark if is_row else MARK.fullmatch(line)
        if not is_row and mark and mark["name"]:
            out += markdown(TABLES[mark["name"]]())
    return "\n".join(out) + "\n"


def main(*words: str) -> None:
    for name in PAGES:
        page = (DOCS / name).read_text()
        made = rebuilt(page)
        if made != page and words == ("--check",):
            sys.exit(f"docs/{name}: a table differs; python -m benchmarks.tables makes it anew")
        (DOCS / name).write_text(made)
