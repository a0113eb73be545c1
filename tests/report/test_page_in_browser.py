"""report.html in a real browser, where there is one."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from anchorfl import Experiment
from anchorfl.report.page import page_data, write_page
from anchorfl.runs import quantity, read_run
from tests.conftest import RECORDS
from tests.report.browser import NEEDS_BROWSER, open_in_browser

pytestmark = NEEDS_BROWSER


@pytest.mark.parametrize("source", ["v12-svhn-seed1", "run"])
def test_a_browser_draws_every_plot_without_error_or_network(source: str, tmp_path: Path) -> None:
    if source == "run":
        folder = Experiment("v12", train={"rounds": 3}, seed=1, out=tmp_path / "run").run().folder
        page, run = folder / "report.html", read_run(folder)
    else:
        run = read_run(RECORDS / source)
        page = write_page(run, tmp_path / "report.html")
    document, log, network = open_in_browser(page, tmp_path)
    assert "CONSOLE" not in log, log
    initiators = set(re.findall(r'"initiator":"([^"]+)"', network))  # a page on disk is "null"
    assert initiators <= {"not an origin"}, "the page, not the browser itself, asked another host"
    assert not re.findall(r'(?:src|href)="(?!data:)', page.read_text())
    charts = page_data(run)["charts"]
    assert document.count("<figure>") == len(charts) == 8
    drawn = re.search(r'data-drawn="(\d+)"', document)
    assert drawn
    every = [series for chart in charts for series in chart["series"]]
    assert int(drawn.group(1)) == sum(any(y is not None for y in series["y"]) for series in every)


def test_a_scale_has_as_many_digits_as_its_range_needs(tmp_path: Path) -> None:
    run = read_run(RECORDS / "v12-svhn-seed1")
    records = [{**each, "align_loss": 0.951 + each.get("client", 0) / 1e5} for each in run.metrics]
    page = write_page(replace(run, metrics=records), tmp_path / "report.html")
    document, _, _ = open_in_browser(page, tmp_path)
    for figure in document.split("<figure>")[1:]:
        scale = re.findall(r'text-anchor="end">([^<]+)<', figure)
        assert len(set(scale)) == len(scale) > 2


def test_a_page_writes_numbers_as_the_tables_do(tmp_path: Path) -> None:
    values = [
        0,
        2e-7,
        1.5e-5,
        0.000123,
        0.98765,
        5,
        12.34,
        99.97,
        911.7,
        1640.7,
        49125952,
        3.5e11,
        1.2e12,
    ]
    page = write_page(read_run(RECORDS / "v12-svhn-seed1"), tmp_path / "report.html")
    ask = f"<script>document.body.dataset.told = {values}.map(x => quantity(x)).join(' ');</script>"
    page.write_text(page.read_text().replace("</body>", ask + "</body>"))
    document, _, _ = open_in_browser(page, tmp_path)
    assert f'data-told="{" ".join(map(quantity, values))}"' in document
    assert re.search(r'text-anchor="end">10,000,000<', document)
    assert not re.search(r"[0-9]e\+[0-9]", document.split("</script>")[-1])


def test_hovering_and_hiding_work_and_odd_class_names_are_harmless(tmp_path: Path) -> None:
    run = read_run(RECORDS / "v12-svhn-seed1")
    odd = replace(run.summary, class_names=["<!--<script>", "</script>", *"abcdefgh"])
    page = write_page(replace(run, summary=odd), tmp_path / "report.html")
    play = """<script>
    const plot = document.querySelector("svg"), box = plot.getBoundingClientRect();
    const event = (kind, x) =>
      plot.dispatchEvent(new PointerEvent(kind, {clientX: box.left + x * box.width}));
    event("pointermove", .5);
    document.body.dataset.tip = document.querySelector(".tip").textContent;
    const before = plot.querySelectorAll(".curve").length;
    document.querySelector(".legend button").click();
    document.body.dataset.hidden = before - plot.querySelectorAll(".curve").length;
    event("pointerdown", .2); event("pointerup", .6);
    document.body.dataset.zoomed = plot.textContent;
    </script>"""
    page.write_text(page.read_text().replace("</body>", play + "</body>"))
    document, log, _ = open_in_browser(page, tmp_path)
    assert "CONSOLE" not in log, log
    assert 'data-hidden="1"' in document
    assert re.search(r'data-tip="round \d+: normalised-feature-mean [\d.]+, class-mean', document)
    assert re.search(r'data-zoomed="[^"]*15[^"]*"', document)
    assert "&lt;!--&lt;script&gt;" in document


@pytest.mark.parametrize("width", [390, 1280])
def test_nothing_is_wider_than_the_screen_and_terms_are_explained(width: int, tmp_path: Path) -> None:
    page = write_page(read_run(RECORDS / "study" / "001" / "v10"), tmp_path / "report.html")
    ask = """<script>
    const wide = document.documentElement.scrollWidth;
    const marked = [...document.querySelectorAll("h2 abbr, .number abbr, th abbr, figcaption abbr")];
    parent.postMessage({wide, marked: marked.map(node => node.textContent).join()}, "*");
    </script>"""
    page.write_text(page.read_text().replace("</body>", ask + "</body>"))
    frame = tmp_path / "frame.html"
    frame.write_text(
        f"""<body><script>onmessage = event => Object.assign(document.body.dataset, event.data)</script>
        <iframe src="report.html" style="width: {width}px; height: 800px; border: 0"></iframe></body>"""
    )
    document, log, _ = open_in_browser(frame, tmp_path)
    assert "CONSOLE" not in log, log
    wide = re.search(r'data-wide="(\d+)"', document)
    assert wide
    assert int(wide.group(1)) <= width
    marked = re.search(r'data-marked="([^"]+)"', document)
    assert marked
    terms = {"round", "client", "largest lambda", "raw lambda", "base loss B", "effective classes"}
    assert terms <= set(marked.group(1).split(","))


@pytest.mark.parametrize(("width", "folded"), [(390, 2), (1280, 0)])
def test_a_table_that_does_not_fit_folds_or_fades(width: int, folded: int, tmp_path: Path) -> None:
    page = write_page(read_run(RECORDS / "study" / "002" / "v12"), tmp_path / "report.html")
    ask = """<script>
    const shown = [...document.querySelectorAll(".scroll")].filter(box => box.clientWidth);
    const cut = shown.filter(box => box.scrollWidth > box.clientWidth + 1);
    parent.postMessage({folded: document.querySelectorAll(".scroll .fold").length, cut: cut.length,
                        unsaid: cut.filter(box => !box.classList.contains("more")).length}, "*");
    </script>"""
    page.write_text(page.read_text().replace("</body>", ask + "</body>"))
    frame = tmp_path / "frame.html"
    frame.write_text(
        f"""<body><script>onmessage = event => Object.assign(document.body.dataset, event.data)</script>
        <iframe src="report.html" style="width: {width}px; height: 800px; border: 0"></iframe></body>"""
    )
    document, log, _ = open_in_browser(frame, tmp_path)
    assert "CONSOLE" not in log, log
    assert f'data-folded="{folded}"' in document
    assert 'data-unsaid="0"' in document
    assert ('data-cut="0"' in document) == (width > 1000)


def test_only_the_terms_that_a_page_uses_are_explained_at_its_foot(tmp_path: Path) -> None:
    run = read_run(RECORDS / "study" / "002" / "v12")
    none = {"final_accuracy": None, "confusion": None, "prediction_ms": None}
    bare = replace(run, metrics=[], summary=replace(run.summary, **none))
    always = {"client", "site", "effective classes"}
    measured = {"worst class", "calibration error", "clip factor", "base loss B", "raw lambda"}
    measured |= {"largest lambda", "stationary lambda", "best single client", "feature-mean", "primary"}
    for shown, found in ((run, always | measured), (bare, always)):
        document, log, _ = open_in_browser(write_page(shown, tmp_path / "report.html"), tmp_path)
        assert "CONSOLE" not in log, log
        terms = set(re.findall(r"<dt>([^<]+)</dt>", document))
        assert terms & (always | measured) == found
