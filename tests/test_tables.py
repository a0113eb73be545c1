"""The tables of docs/ are those that the records make, and a figure that is altered is found."""

from __future__ import annotations

import re

import pytest
from benchmarks.tables.figures import TABLES
from benchmarks.tables.pages import DOCS, MARK, PAGES, rebuilt


@pytest.mark.parametrize("name", PAGES)
def test_every_table_of_a_page_is_the_one_its_records_make(name: str) -> None:
    page = (DOCS / name).read_text()
    assert rebuilt(page) == page
    assert any(found["name"] for found in MARK.finditer(page))


@pytest.mark.parametrize("name", PAGES)
def test_an_altered_figure_is_found(name: str) -> None:
    page = (DOCS / name).read_text()
    start = page.index("<!-- table: ")
    cell = re.compile(r"(?<=\| )\d+\.\d(?= [|(])").search(page, start)
    assert cell is not None
    altered = page[: cell.start()] + "99.9" + page[cell.end() :]
    assert rebuilt(altered) == page


def test_a_table_that_says_not_where_it_comes_from_is_refused() -> None:
    with pytest.raises(ValueError, match="no mark stands before the table"):
        rebuilt("Some words.\n\n| a | b |\n| --- | --- |\n| 1 | 2 |\n")


def test_a_mark_without_its_table_gets_it() -> None:
    page = (DOCS / "fusion.md").read_text()
    mark = "<!-- table: guided -->\n"
    before, after = page.split(mark)
    assert rebuilt(before + mark + "\n" + after.split("\n\n", 1)[1]) == page


def test_every_table_that_can_be_made_stands_on_a_page() -> None:
    pages = "".join((DOCS / name).read_text() for name in PAGES)
    assert not [name for name in TABLES if f"<!-- table: {name} -->" not in pages]


def test_tables_without_a_record_say_so_to_the_reader() -> None:
    for name in PAGES:
        before = (DOCS / name).read_text().split("<!-- no record -->")[:-1]
        assert all("o record" in part[-400:] for part in before)
