"""The page of a comparison in a browser, as wide as a desk and as a phone."""

import re
from pathlib import Path

import pytest

from anchorfl.report.compare.charts import charts_of
from anchorfl.report.compare.groups import group_runs
from anchorfl.report.compare.page import write_page
from anchorfl.report.compare.table import accuracy_table, difference_table
from tests.report.browser import NEEDS_BROWSER, open_in_browser
from tests.report.recorded import recorded

pytestmark = NEEDS_BROWSER
MEASURE = """<script>
const root = document.documentElement, blocks = [...document.querySelectorAll(".rows, figure")];
const body = document.body.dataset;
body.over = root.scrollWidth - root.clientWidth;
body.wide = blocks.filter(each => each.scrollWidth > root.clientWidth).length;
body.folds = document.querySelector(".fold") !== null;
</script>"""


@pytest.mark.parametrize(("width", "folds"), [(1280, "false"), (390, "true")])
def test_tables_and_bands_are_drawn_and_nothing_is_cut(width: int, folds: str, tmp_path: Path) -> None:
    groups = group_runs(recorded("v4", "v12", "v12-batch", "v12-gamma-batch"))
    tables = [accuracy_table(groups), difference_table(groups, groups[0])]
    page = write_page(groups, tables, tmp_path / "c.html")
    page.write_text(page.read_text().replace("</body>", MEASURE + "</body>"))
    options = ("--hide-scrollbars", f"--window-size={width},2000")
    document, log, _ = open_in_browser(page, tmp_path, *options)
    assert "CONSOLE" not in log, log
    cells = re.findall(r"<td[^>]*><span>(.*?)</span>", document)
    wanted = [cell for table in tables for row in table.rows for cell in row]
    assert cells[: len(wanted)] == wanted
    assert document.count('class="band"') == sum(len(chart.lines) for chart in charts_of(groups))
    measured = [re.findall(rf'data-{key}="(\w+)"', document) for key in ("over", "wide", "folds")]
    assert measured == [["0"], ["0"], [folds]]
