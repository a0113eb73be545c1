"""What a figure says of itself."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from anchorfl.report.page import page_data
from anchorfl.report.png_files import write_figures
from anchorfl.report.png_plots import plot_accuracy
from anchorfl.runs import read_run
from tests.conftest import RECORDS


def test_a_label_stands_over_a_runs_page_and_figures(tmp_path: Path) -> None:
    run = read_run(RECORDS / "v12-svhn-seed1")
    labelled = replace(run, settings={**run.settings, "label": "v12-batch"})
    assert page_data(labelled)["title"] == "v12-batch on svhn"
    write_figures(labelled, tmp_path, ["svg"])
    assert "<!-- v12-batch on svhn -->" in (tmp_path / "lambda.svg").read_text()


@pytest.mark.parametrize("seeds", [1, 3])
def test_thin_lines_are_explained_where_there_are_some(seeds: int, tmp_path: Path) -> None:
    curves = {"v4": np.full((seeds, 2), 0.5)}
    drawn = plot_accuracy([0, 1], curves, "digits", tmp_path / "a.svg").read_text()
    assert ("<!-- thin: one seed each -->" in drawn) == (seeds > 1)
    assert "<!-- test accuracy, % -->" in drawn
