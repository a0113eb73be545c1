"""The numbers of a comparison: means, deviations, paired differences and their test."""

from dataclasses import replace
from io import StringIO
from itertools import product
from statistics import mean, stdev

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from anchorfl.report.compare import show_comparison
from anchorfl.report.compare.groups import group_runs
from anchorfl.report.compare.sign_flip import sign_flip_p
from anchorfl.report.compare.table import accuracy_by_fusion, accuracy_table, difference_table, note_on
from anchorfl.runs import Run
from tests.report.recorded import recorded


def with_accuracy(run: Run, **shares: float) -> Run:
    return replace(run, summary=replace(run.summary, final_accuracy=shares))


@given(st.lists(st.integers(-300, 300), min_size=2, max_size=8))
def test_p_counts_all_ways_to_sign_the_differences(points: list[int]) -> None:
    observed = abs(sum(points))
    ways = [sum(sign * each for sign, each in zip(signs, points, strict=True))
            for signs in product((1, -1), repeat=len(points))]  # fmt: skip
    expected = sum(abs(total) >= observed for total in ways) / len(ways)
    assert sign_flip_p([each / 1000 for each in points]) == expected


def test_three_seeds_cannot_reach_significance_and_six_can() -> None:
    assert sign_flip_p([0.1, 0.1, 0.1]) == 0.25
    assert sign_flip_p([0.1, 0.12, 0.09, 0.2, 0.1, 0.05]) == 2 / 2**6
    assert sign_flip_p([0.0, 0.0, 0.0]) == 1
    assert sign_flip_p([0.3]) is None
    assert sign_flip_p([0.01] * 60) == 2 / 2**60


def test_sums_that_rounding_would_tell_apart_are_equal() -> None:
    """0.1 + 0.2 - 0.3 is not 0 in floating point."""
    assert sign_flip_p([0.1, 0.2, -0.3]) == 1


def test_a_lambda_of_another_reading_is_named_below() -> None:
    runs = recorded("v12", "v12-gamma")
    assert "Largest lambda" not in note_on(group_runs(runs))
    seen = [
        replace(run, metrics=[{**each, "lambda_raw": None} for each in run.metrics]) for run in runs[3:]
    ]
    note = note_on(group_runs([*runs[:3], *seen]))
    assert note.endswith(" Largest lambda: the effective one of v12-gamma, else the raw one.")


def test_means_deviations_and_the_best_of_each_fusion() -> None:
    runs = recorded("v4", "v12")
    table = accuracy_table(group_runs(runs))
    assert table.headings[0] == "method"
    assert table.headings[-1] == "largest lambda"
    for row, own in zip(table.rows, (runs[:3], runs[3:]), strict=True):
        shares = [run.summary.accuracy("feature-mean") or 0 for run in own]
        cell = row[table.headings.index("feature-mean (primary)")]
        assert cell == f"{100 * mean(shares):.1f} ± {100 * stdev(shares):.1f}"
    assert [row[-1] for row in table.rows] == ["-", "519,492"]
    assert "over seeds 1, 2, 3" in table.title
    assert (0, table.headings.index("feature-mean (primary)")) in table.best


def test_equal_as_written_is_equally_good_and_one_alone_is_not_best() -> None:
    one, two = recorded("v4", "v12", seeds=(1,))
    pair = [with_accuracy(one, a=0.9001, b=0.5), with_accuracy(two, a=0.9003)]
    assert accuracy_table(group_runs(pair)).best == {(0, 1), (1, 1)}
    assert accuracy_table(group_runs(pair)).rows[1][2] == "-"


def test_seeds_have_a_column_where_they_differ() -> None:
    table = accuracy_table(group_runs([*recorded("v4"), *recorded("v12", seeds=(1, 2))]))
    assert table.headings[:2] == ["method", "seeds"]
    assert [row[:2] for row in table.rows] == [["v4", "1 2 3"], ["v12", "1 2"]]


def test_differences_are_paired_over_the_seeds_that_both_have() -> None:
    ours, theirs = recorded("v12"), recorded("v4", seeds=(1, 2))
    groups = group_runs([*ours, *theirs])
    table = difference_table(groups, groups[0])
    assert table.headings == ["fusion", "method", "difference", "p", "n"]
    row = next(row for row in table.rows if row[0] == "feature-mean (primary)")
    found = [
        (a.summary.accuracy("feature-mean") or 0) - (b.summary.accuracy("feature-mean") or 0)
        for a, b in zip(ours, theirs, strict=False)
    ]
    assert row[1:] == ["v12", f"{100 * mean(found):+.1f} ± {100 * stdev(found):.1f}", "0.5", "2"]


@pytest.mark.parametrize(
    ("share", "cell"), [(0.9, "0.0"), (0.912, "+1.2"), (0.89, "-1.0"), (0.8997, "0.0")]
)
def test_a_difference_has_its_sign(share: float, cell: str) -> None:
    one, two = recorded("v4", "v12", seeds=(1,))
    groups = group_runs([with_accuracy(one, a=0.9), with_accuracy(two, a=share)])
    assert difference_table(groups, groups[0]).rows == [["a (primary)", "v12", cell, "-", "1"]]


def test_by_fusion_says_the_same() -> None:
    groups = group_runs(recorded("v4", "v12"))
    wide, long = accuracy_table(groups), accuracy_by_fusion(groups)
    for fusion, label, cell, largest in long.rows:
        row = next(row for row in wide.rows if row[0] == label)
        assert (row[wide.headings.index(fusion)], row[-1]) == (cell, largest)
    assert len(long.rows) == len(wide.rows) * (len(wide.headings) - 2)


@pytest.mark.parametrize("width", [60, 80, 120])
def test_nothing_is_cut_on_a_narrow_console(width: int) -> None:
    out = StringIO()
    runs = recorded("v4", "v12", "v12-batch", "v12-gamma", "v12-gamma-batch")
    show_comparison(Console(file=out, width=width), runs, "v4", None, None)
    assert "…" not in out.getvalue()
    assert max(map(len, out.getvalue().splitlines())) <= width
    groups = group_runs(runs)
    for table in (accuracy_by_fusion(groups), difference_table(groups, groups[0])):
        for row in table.rows:
            assert all(cell in out.getvalue() for cell in row[2:])


def test_a_baseline_alone_has_no_differences() -> None:
    out = StringIO()
    show_comparison(Console(file=out, width=80), recorded("v4"), "v4", None, None)
    assert "minus" not in out.getvalue()
    assert "62.5 ± 14.6" in out.getvalue()
