"""One way to write a number."""

import re
from pathlib import Path

import matplotlib as mpl
import pytest

from anchorfl.diagnose import diagnose
from anchorfl.diagnose.guard import replay
from anchorfl.report.charts import Chart, client_series
from anchorfl.report.figures import plot_chart
from anchorfl.report.numbers import counted, megabytes, percent, quantity
from anchorfl.runs import read_run
from tests.conftest import RECORDS


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        (0.0, "0"),
        (0.00123, "0.00123"),
        (5.0, "5"),
        (12.25, "12.2"),
        (1640.7, "1,641"),
        (2256819.2, "2,256,819"),
        (3_824_291_584.0, "3,824,291,584"),
        (1.234e12, "1.23e+12"),
        (2e-7, "2e-7"),
    ],
)
def test_a_quantity_has_three_digits_or_all_before_the_point(value: float | None, text: str) -> None:
    assert quantity(value) == text


def test_shares_and_sizes() -> None:
    assert (percent(0.8642), percent(None)) == ("86.4", "-")
    assert (megabytes(2_345_678), megabytes(1_234)) == ("2.3 MB", "1.2 kB")
    assert (counted(1, "round"), counted(1442, "sample")) == ("1 round", "1,442 samples")


RUNS = ("v12-svhn-seed1", "v12-svhn-seed2", "v12-gamma-svhn-seed1", "study/002/v12", "study/001/v10")


@pytest.mark.parametrize("name", RUNS)
def test_verdicts_and_alarms_write_numbers_as_tables_do(name: str) -> None:
    run = read_run(RECORDS / name)
    said = [verdict.text for verdict in diagnose(run)]
    said += [alarm.message for alarm in replay(run).values()]
    for text in said:
        assert not re.search(r"\d%|e\+", text), text


def test_a_figures_log_axis_has_the_numbers_of_the_tables(tmp_path: Path) -> None:
    run = read_run(RECORDS / "v12-svhn-seed1")
    chart = Chart("raw lambda", client_series(run, {"lambda_raw": ""}), log=True)
    mpl.rcParams["svg.fonttype"] = "none"
    try:
        path = plot_chart(chart, "V12", tmp_path / "lambda.svg")
    finally:
        mpl.rcParams["svg.fonttype"] = "path"
    text = path.read_text()
    assert ">10,000,000<" in text
    assert ">raw lambda<" in text
    assert "mathdefault" not in text
