"""What a figure says of itself."""

import re
from dataclasses import replace
from pathlib import Path

from anchorfl.report.charts import Chart, Series, spread_of_runs
from anchorfl.report.figures import plot_chart, write_figures
from anchorfl.report.page import page_data
from anchorfl.runs import read_run
from tests.conftest import RECORDS


def test_a_label_stands_over_a_runs_page_and_figures(tmp_path: Path) -> None:
    run = read_run(RECORDS / "v12-svhn-seed1")
    labelled = replace(run, settings={**run.settings, "label": "v12-batch"})
    assert page_data(labelled)["title"] == "v12-batch on svhn"
    write_figures(labelled, tmp_path, ["svg"])
    assert "<!-- v12-batch on svhn -->" in (tmp_path / "lambda.svg").read_text()


def test_a_figure_has_every_curve_of_its_chart_with_band_dashes_and_dots(tmp_path: Path) -> None:
    (band,) = spread_of_runs("v4", [{0: 1.0, 1: 2.0}, {0: 3.0, 1: 4.0, 2: 5.0}], "#0b84b5")
    assert (band.x, band.y, band.low, band.high) == ([0, 1], [2, 3], [1, 2], [3, 4])
    dashed = Series("a", [0, 1], [1, None], "#c2388c", legend="cost in $", dash="7 4")
    dots = Series("b", [0, 1], [1, 2], "#5d7f1f", width=0)
    chart = Chart("test accuracy, %", [band, dashed, dots])
    drawn = plot_chart(chart, "digits", tmp_path / "a.svg").read_text()
    for words in ("test accuracy, %", "digits", "v4", "cost in $"):
        assert f"<!-- {words} -->" in drawn
    assert all(each.colour in drawn for each in chart.series)
    assert len(re.findall(r'id="FillBetween', drawn)) == 1
    assert "stroke-dasharray: 12.6,7.2" in drawn
    assert len(re.findall(r"<use [^>]*fill: #5d7f1f", drawn)) == 2
