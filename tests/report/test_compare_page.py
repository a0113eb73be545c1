"""The page of a comparison in a browser, as wide as a desk and as a phone."""

import re
from pathlib import Path

import pytest

from anchorfl.report.colours import fusion_colour
from anchorfl.report.compare.charts import charts_of
from anchorfl.report.compare.groups import all_fusions, group_runs
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
    assert document.count('class="band"') == sum(len(chart.series) for chart in charts_of(groups))
    measured = [re.findall(rf'data-{key}="(\w+)"', document) for key in ("over", "wide", "folds")]
    assert measured == [["0"], ["0"], [folds]]


PLAY = """<script>{
const panels = [...document.querySelectorAll("svg")], body = document.body.dataset;
const labels = panel => [...panel.querySelectorAll("text")].map(each => each.textContent).join(" ");
const box = panels[1].getBoundingClientRect();
function drag(kind, share) {
  panels[1].dispatchEvent(new PointerEvent(kind, { clientX: box.left + share * box.width }));
}
body.before = panels.map(labels).join("|");
drag("pointerdown", .6); drag("pointerup", .95);
body.zoomed = panels.map(labels).join("|");
document.querySelector(".legend button").click();
body.hidden = panels.map(labels).join("|");
panels[0].dispatchEvent(new MouseEvent("dblclick"));
body.after = panels.map(labels).join("|");
}</script>"""


def test_panels_side_by_side_share_one_zoom(tmp_path: Path) -> None:
    groups = group_runs(recorded("v4", "v12", seeds=(3,)))
    page = write_page(groups, [], tmp_path / "c.html")
    page.write_text(page.read_text().replace("</body>", PLAY + "</body>"))
    document, log, _ = open_in_browser(page, tmp_path, "--window-size=1280,2000")
    assert "CONSOLE" not in log, log
    before, zoomed, hidden, after = (
        [panel.split() for panel in re.findall(rf'data-{moment}="([^"]*)"', document)[0].split("|")]
        for moment in ("before", "zoomed", "hidden", "after")
    )
    assert before[:4] == [["60", "70", "80", "90", "100", "0", "10", "20", "round"]] * 4
    assert zoomed[:4] == [["70", "80", "90", "100", "20", "25", "round"]] * 4
    assert [panel[-3:] for panel in zoomed[4:]] == [["20", "25", "round"]] * 2, "lambda too"
    assert zoomed[4][0] != before[4][0]
    assert hidden == zoomed, "a curve that is hidden in one panel leaves the scale that they share"
    assert after == before


def test_the_page_explains_its_terms_and_marks_the_primary_fusion(tmp_path: Path) -> None:
    groups = group_runs(recorded("v4", "v12", seeds=(1, 2)))
    tables = [accuracy_table(groups), difference_table(groups, groups[0])]
    page = write_page(groups, tables, tmp_path / "c.html")
    document, _, _ = open_in_browser(page, tmp_path)
    explained = dict(re.findall(r'<abbr title="([^"]+)">([^<]+)</abbr>', document)[::-1])
    marked = set(explained.values())
    assert {"primary", "largest lambda", "difference", "p", "n", "fusion", "v4", "class-mean"} <= marked
    titles = re.findall(r"<figcaption>(.*?)</figcaption>", document)
    assert ["primary</abbr>" in title for title in titles] == [True, *[False] * 5]
    colours = [re.findall(r"rgb\((.*?)\)", title) for title in titles]
    hexes = [
        ["".join(f"{int(part):02x}" for part in each.split(",")) for each in own] for own in colours
    ]
    fusions = all_fusions(groups)
    assert hexes == [*([fusion_colour(name)[1:]] for name in fusions), [], []]
    assert document.count("355 test images") >= 3
