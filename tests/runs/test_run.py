"""One reader for the folder of a run, of this format and of the one before."""

from __future__ import annotations

from anchorfl.runs import read_run
from tests.conftest import RECORDS


def test_a_run_of_the_format_before_calls_its_fusions_by_todays_names() -> None:
    """Its feature-mean normalised each client's features first; that rule has another name now."""
    run = read_run(RECORDS / "v12-svhn-seed1")
    assert run.summary.final_accuracy is not None
    for accuracy in (run.summary.final_accuracy, run.evaluations[-1]["accuracy"]):
        assert "feature-mean" not in accuracy
        assert accuracy["normalised-feature-mean"] > 0.2


def test_a_run_of_this_format_is_read_as_it_stands() -> None:
    run = read_run(RECORDS / "study" / "001" / "v4")
    assert run.summary.final_accuracy is not None
    assert {"feature-mean", "normalised-feature-mean"} <= set(run.summary.final_accuracy)
